"""From the address of an image in some storage to the name of the image, and back."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, urlsplit

from partlabel.core.errors import UserError
from partlabel.formats.report import plural

_UPLOAD = re.compile(r"^(?:https?://[^/]+)?(?:/[^?#]*)?/data/upload/(?:\d+/)?([^?#]+)")
_LOCAL = re.compile(r"^(?:https?://[^/]+)?(?:/[^?#]*)?/data/[^?#]*\?d=(.+)$", re.DOTALL)
_STORAGE = re.compile(r"^(?:s3s?|gs|azure-blob|redis)://[^/]+/(.+)$", re.DOTALL)
#: data stores of Azure ML: AmlDatastore://NAME/PATH, azureml://subscriptions/.../datastores/NAME/paths/PATH
_AZURE = re.compile(r"^(?:AmlDatastore://[^/]+/|azureml://(?:.*?/)?datastores/[^/]+/paths/)(.+)$", re.DOTALL)
_WEB = re.compile(r"^https?://", re.IGNORECASE)
#: the help of the option that says how images are called
IMAGE_NAMES = (
    "how images are called: path, the path in the storage (of uploads to Label Studio the name before the upload); "
    "file, the last part; url, the address as it stands; or a beginning of the path that is taken away"
)
#: Label Studio puts eight hexadecimal digits before the name of a file that is uploaded
_PREFIX = re.compile(r"^[0-9a-f]{8}-(?=.)")


def image_name(address: str, rule: str) -> tuple[str, str]:
    """Return the name of an image, and what makes it another image than one of the same name.

    Args:
        address: ``/data/upload/1/1a2b3c4d-cat.jpg``, ``/data/local-files/?d=pets/cat.jpg``, ``s3://bucket/cat.jpg``,
            ``https://...`` or a plain path.
        rule: ``file`` (the last part), ``url`` (as it is), otherwise the path in the storage; of uploads to Label
            Studio the name before the upload.

    Raises:
        ValueError: an address without a path.
    """
    address = address.strip()
    if rule == "url":
        return address, address
    identity = address
    is_upload = False
    if local := _LOCAL.match(address):
        path = unquote(local[1].split("&")[0]).replace("\\", "/").lstrip("/")
    elif upload := _UPLOAD.match(address):
        is_upload = True
        path, identity = unquote(upload[1]), upload[0]
    elif storage := _STORAGE.match(address) or _AZURE.match(address):
        path = storage[1]
    elif _WEB.match(address):
        parts = urlsplit(address)
        path, identity = unquote(parts.path).lstrip("/"), f"{parts.netloc}{parts.path}"  # signatures differ
    else:
        path = address
    if rule == "file":
        path = path.rpartition("/")[2]
    elif is_upload:
        path = _PREFIX.sub("", path)
    if not path:
        raise ValueError("no path")
    return path, identity


class Addresses:
    """The names of images by their addresses; no two images get one name."""

    def __init__(self, rule: str) -> None:
        """Prepare for a rule as ``image_name`` takes it."""
        self.rule = rule
        self._names: dict[str, str] = {}
        self._first: dict[str, tuple[str, str]] = {}
        self._wrong: list[str] = []
        self._clash: dict[str, None] = {}

    def name(self, address: str, place: Callable[[], str]) -> str:
        """Return the name of an image; a wrong address is remembered with its place for ``check``."""
        if address not in self._names:
            try:
                name, identity = image_name(address, self.rule)
            except ValueError as error:
                self._wrong.append(f"{place()}: {address} ({error})")
                return ""
            first = self._first.setdefault(name, (identity, address))
            if first[0] != identity:
                self._clash[f"{name}: {first[1]} and {address}"] = None
            self._names[address] = name
        return self._names[address]

    def check(self, path: str) -> None:
        """Refuse addresses without a path, and different images of one name.

        Raises:
            UserError: such addresses; all are listed.
        """
        if self._wrong:
            raise UserError(f"{path}: {plural(len(self._wrong), 'image')} whose address cannot be read", self._wrong)
        if self._clash:
            raise UserError(
                f"{path}: different images would get the same name; keep them apart with image_names=file or url",
                list(self._clash),
            )


def local_address(name: str) -> str:
    """Return the address under which Label Studio serves an image of its local storage; addresses stay as they are."""
    if "://" in name or name.startswith("/data/"):
        return name
    return "/data/local-files/?d=" + quote(name)
