"""The command download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from partlabel.app.cli.output import Json, reporting


def download(
    dataset: Literal["voc2007", "coco2014", "openimages", "nuswide-lists"],
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
    parts: str | None = None,
    pictures: Path | None = None,
    mirror: str | None = None,
    json: Json = False,
) -> None:
    """Fetch a public data set, check it and unpack it.

    The files come from their official addresses. A download that was stopped, or whose connection was cut, goes on
    where it was when the command is run again; what is here and right is not fetched twice. Proxies are taken from the
    environment (`http_proxy`, `https_proxy`, `no_proxy`). Each data set has terms of use, which are printed.

    - `voc2007`: PASCAL VOC 2007, 0.9 GB, and 0.9 GB unpacked. Parts: trainval, test.
    - `coco2014`: COCO 2014, 20.4 GB, and about 21 GB unpacked. Parts: annotations (0.25 GB), train (13.5 GB), val
      (6.6 GB).
    - `openimages`: labels of Open Images. Parts: boxable (labels by people, 600 classes, about 0.4 GB; the default),
      human (by people, all classes, about 2.9 GB), machine (by a model, about 7.5 GB), each also as boxable-train,
      boxable-validation, boxable-test and so on.
    - `nuswide-lists`: labels and lists of images of NUS-WIDE. Parts: labels, images, concepts.

    Args:
        dataset: What is fetched, see above.
        output: Folder that it goes into; it is made if need be.
        parts: Names of parts between commas. Without it, everything; for openimages, boxable.
        pictures: Text file that names images of openimages to be fetched too, one a line, such as
            train/000002b66c9c498e. They go into a folder for each of train, validation and test.
        mirror: Address of a server that has the same files as ADDRESS/DATASET/FILE.
    """
    with reporting(json) as report:
        from partlabel.app.download import download as fetch
        from partlabel.core.progress import Reporter

        names = [name.strip() for name in parts.split(",")] if parts is not None else []
        done = fetch(dataset, output, names, pictures, mirror, Reporter())
        report(done.to_dict(), done.text())
