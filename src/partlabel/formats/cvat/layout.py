"""What an XML file of CVAT says about its images, gathered while the file streams through."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import IO
from xml.parsers import expat

from partlabel.core.errors import UserError

#: elements of an image that outline something; the name of its class is in ``label``
SHAPES = ("box", "polygon", "polyline", "points", "cuboid", "mask", "ellipse", "skeleton")
_CHUNK = 1 << 20
#: where the labels block lies: in a task, a job or a project
_LABEL = tuple(["annotations", "meta", owner, "labels", "label"] for owner in ("task", "job", "project"))


class Content:
    """The images of a file and the labels on them.

    Attributes:
        declared: class names of the labels block in its order; parts of skeletons are not among them.
        images: the name of each image element; ``image_lines``: its line; ``owners``: its task and subset.
        image, cls: position in ``images``, and in ``names``, of each label; ``shape``: 1 for a shape, 0 for a tag.
        lines: the line of each label.
        names: class names of the labels in order of appearance.
        kinds: how many labels there are of each element: ``tag``, ``box``, ...
        attributes: how many labels have attributes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.declared: list[str] = []
        self.images: list[str] = []
        self.image_lines = array("q")
        self.owners: list[tuple[str, str]] = []
        self.image, self.cls, self.shape = array("i"), array("i"), array("b")
        self.lines = array("q")
        self.names: dict[str, int] = {}
        self.kinds: Counter[str] = Counter()
        self.attributes = 0
        self._open: list[str] = []
        self._text: list[str] | None = None
        self._name = ""
        self._is_part = False
        self._wrong: list[str] = []

    def read(self, file: IO[bytes]) -> None:
        """Read the file.

        Raises:
            UserError: not XML, not a file of CVAT for images, images or labels without a name; all are listed.
        """
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._entity
        try:
            while chunk := file.read(_CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            where = f"{self.path}:{error.lineno}:{error.offset + 1} {expat.ErrorString(error.code)}"
            raise UserError(f"{self.path}: not valid XML, or cut off", [where]) from None
        except UserError:
            raise
        except (LookupError, ValueError) as error:  # an encoding that Python or expat does not know
            raise UserError(f"{self.path}: its encoding cannot be read ({error})") from None
        if self._wrong:
            raise UserError(f"{self.path}: images or labels without a name", self._wrong)

    @property
    def _here(self) -> str:
        return f"{self.path}:{self._parser.CurrentLineNumber}"

    def _entity(self, name: str, *_: object) -> None:
        raise UserError(f"{self.path}: declares an entity, which files of CVAT never do", [f"{self._here} {name}"])

    def _start(self, tag: str, given: dict[str, str]) -> None:
        depth = len(self._open)
        self._open.append(tag)
        if depth == 0 and tag != "annotations":
            hint = "; it looks like Pascal VOC" if tag == "annotation" else ""
            raise UserError(f"{self.path}: not a file of CVAT: it starts with <{tag}>, not <annotations>{hint}")
        if depth == 1 and tag == "track":
            raise UserError(f"{self.path}: CVAT for video; export the task once more as CVAT for images")
        if depth == 1 and tag == "image":
            self._image(given)
        elif depth == 2 and self._open[1] == "image" and (tag == "tag" or tag in SHAPES):
            self._label(tag, given)
        elif depth == 3 and tag == "attribute" and self._open[1] == "image":
            self.attributes += 1
        elif depth == 4 and self._open in _LABEL:
            self._name, self._is_part = "", False
        elif depth == 5 and self._open[:-1] in _LABEL:
            self._text = [] if tag == "name" else None
            self._is_part |= tag == "parent"

    def _image(self, given: dict[str, str]) -> None:
        name = given.get("name", "").strip()
        if not name:
            self._wrong.append(f"{self._here} <image> without a name")
        self.images.append(name)
        self.image_lines.append(self._parser.CurrentLineNumber)
        self.owners.append((given.get("task_id", ""), given.get("subset", "")))

    def _label(self, tag: str, given: dict[str, str]) -> None:
        name = given.get("label", "")
        if not name.strip():
            self._wrong.append(f"{self._here} <{tag}> without a label")
        self.kinds[tag] += 1
        self.image.append(len(self.images) - 1)
        self.cls.append(self.names.setdefault(name, len(self.names)))
        self.shape.append(tag != "tag")
        self.lines.append(self._parser.CurrentLineNumber)

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        if self._text is not None:
            self._name, self._text = "".join(self._text), None
        elif len(self._open) == 5 and self._open in _LABEL and self._name.strip() and not self._is_part:
            self.declared.append(self._name)
        self._open.pop()
