"""Single images of Open Images, named by a list."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from partlabel.app.download.fetching import FetchError, fetch
from partlabel.core.errors import UserError
from partlabel.core.trouble import plainly

#: images that are fetched at the same time
AT_ONCE = 16

_BATCH = 1000
_LINE = re.compile(r"(train|validation|test)/([0-9a-f]{16})(?:\.jpg)?")


def read_list(path: Path) -> list[str]:
    """Read the names of images, one ``SPLIT/ID`` a line, as the publisher's own downloader takes them.

    Returns:
        ``SPLIT/ID.jpg``, each once.

    Raises:
        UserError: the file cannot be read, or has other lines.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or plainly(error)})") from error
    found = [(number, line.strip(), _LINE.fullmatch(line.strip())) for number, line in enumerate(lines, start=1)]
    wrong = [f"{path}:{number} {line}" for number, line, match in found if line and not match]
    if wrong:
        raise UserError(f"{path}: each line names one image, such as train/000002b66c9c498e", wrong)
    return list(dict.fromkeys(f"{match[1]}/{match[2]}.jpg" for _, _, match in found if match))


def fetch_pictures(
    names: list[str], folder: Path, address: Callable[[str], str], bar: Callable[[int, int], None]
) -> list[str]:
    """Fetch images into ``folder/SPLIT/ID.jpg``; those that are there already are not fetched again.

    Args:
        names: ``SPLIT/ID.jpg`` each.
        folder: where the folders of the splits lie.
        address: gives the address of a name.
        bar: is told (images done, images in all).

    Returns:
        The names that the server does not have.

    Raises:
        UserError: an image cannot be fetched for another reason.
    """

    def one(name: str) -> str | None:
        try:
            fetch(address(name), folder / name, resumable=False)
        except FetchError as error:
            if not error.absent:
                raise
            return name
        return None

    for split in {name.partition("/")[0] for name in names}:
        (folder / split).mkdir(exist_ok=True)
    wanted = [name for name in names if not (folder / name).is_file()]
    absent: list[str] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # In batches, so that a million images do not wait in memory, and an error ends it soon.
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            for done, missing in enumerate(pool.map(one, batch), start=len(names) - len(wanted) + start + 1):
                absent += [missing] if missing else []
                bar(done, len(names))
    return absent
