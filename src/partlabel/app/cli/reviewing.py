"""The command ``review``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting
from partlabel.app.cli.steps import after_review
from partlabel.core.errors import UserError
from partlabel.core.optional import require
from partlabel.core.text import shown


def review(
    run: Path,
    /,
    *,
    images: Path,
    labels: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    browser: Annotated[bool, Parameter(show_default=False)] = False,
    people: str | None = None,
    rescue: Annotated[bool, Parameter(show_default=False)] = False,
    json: Json = False,
) -> None:
    """Open a local page to check labels and answer questions.

    The page shows what is worth asking, the labels that a model filled in, the least sure first, and labels of people
    that are perhaps wrong. It works by keyboard, mouse and touch, and several people may use it at once. Each answer is
    on disk before the page says so; all of them lie in the folder `review` of the run, whatever table is reviewed.
    While the server runs, no other command writes into the run.
    `Export` on the page writes the label table with the answers, for `partlabel train`, or an annotation format.

    The first start scores all images, later ones only those that are new or were changed. Stop the server with Ctrl+C.

    Args:
        run: Run folder of `partlabel train`.
        images: Folder that the image names of the table start from.
        labels: Label table to review, a .parquet file, such as `partlabel complete` writes. Without it, the labels that
            the run was trained and validated on.
        host: Address to listen at. With another one than 127.0.0.1, other machines can reach the page; the address
            that is printed then holds a secret, without which nobody gets in. The connection is not encrypted; the
            guide says how to put a proxy with TLS before it.
        port: Port to listen at; 0 takes a free one.
        browser: Open the page in a browser.
        people: Names of those who answer, with commas between them. Each gets an address of their own, and their
            answers are stored under the name: record.csv in the folder review says who answered what, and when.
        rescue: Where the file of the answers is damaged: keep a copy of it, and go on with every answer that is whole.
    """
    with reporting(json) as report:
        require("the review page needs", "starlette", "uvicorn")
        from partlabel.app.review.server import serve

        def say(addresses: dict[str, str]) -> None:
            first = next(iter(addresses.values()))
            lines = [f"  {name}: {address}" for name, address in addresses.items() if name]
            step = f"open {first} in a browser"
            result = {"address": first, **({"people": addresses} if lines else {}), "run": str(run), "next": step}
            text = [f"Review page of {run}: {'' if lines else first}".rstrip(), *lines]
            report(result, "\n".join([*text, "Next: open that address in a browser; stop with Ctrl+C"]))

        names = [] if people is None else [name.strip() for name in people.split(",")]
        if rescue:
            _rescue(run)
        served = True
        try:
            serve(run, labels, images, host=host, port=port, browser=browser, people=names, say=say, last=True)
        except UserError:
            served = False
            raise
        finally:
            if served and (step := after_review(run, images)) and not json:
                print(f"Next: {step}", file=sys.stderr)


def _rescue(run: Path) -> None:
    """Make the answers of a run sound again, and say what became of them."""
    from partlabel.app.review.rescue import rescue
    from partlabel.core.lock import holding
    from partlabel.training.run import Run

    Run(run)
    with holding(run, "partlabel review --rescue"):
        found = rescue(run / "review" / "answers.sqlite")
    if found is None:
        print("The answers are sound; nothing was changed.", file=sys.stderr)
        return
    whole = "1 answer is whole and was" if found.answers == 1 else f"{found.answers:,} answers are whole and were"
    lines = [f"{whole} taken over; the damaged file is in {found.kept}"]
    lines += [f"  not taken over: {shown(text, lines=False)}" for text in found.lost[: UserError.SHOWN]]
    lines += [f"  ... and {len(found.lost) - UserError.SHOWN} more"] * (len(found.lost) > UserError.SHOWN)
    print("\n".join(lines), file=sys.stderr)
