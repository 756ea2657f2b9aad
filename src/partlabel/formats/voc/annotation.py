"""One VOC XML file: the picture it is about, and the objects in it.

The file is read as a stream by expat. Entities are refused, so that a small file can neither grow to gigabytes nor pull
in another file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from partlabel.core.errors import UserError
from partlabel.formats.coding import canonical

_DIFFICULT = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_TEXTS = {("filename",), ("object", "name"), ("object", "difficult")}


@dataclass
class Object:
    """One object: its class, whether it is marked difficult, and the line on which it starts."""

    line: int
    name: str | None = None
    difficult: bool = False


@dataclass
class Annotation:
    """What an XML file says; ``filename`` is empty where the file does not name its picture."""

    filename: str = ""
    objects: list[Object] = field(default_factory=list)


def parse(path: str) -> Annotation:
    """Read an XML file. Only ``filename`` and each object's ``name`` and ``difficult`` count; tags in any case.

    Raises:
        UserError: not well-formed XML, another root than ``annotation``, objects without a name, values of
            ``difficult`` that are neither 0 nor 1, entities; the offenders are ``file:line[:column] what``.
    """
    reader = _Reader()
    try:
        with open(path, "rb") as file:
            reader.parser.ParseFile(file)
    except OSError as error:
        reader.wrong.append((None, f"cannot be read ({error.strerror})"))
    except expat.ExpatError as error:
        reader.wrong.append((f"{error.lineno}:{error.offset + 1}", expat.ErrorString(error.code)))
    except (ValueError, LookupError) as error:  # an encoding that is not known
        reader.refuse(str(error))
    if reader.wrong:
        offenders = [f"{path}:{place} {what}" if place else f"{path} {what}" for place, what in reader.wrong]
        raise UserError(f"{path}: not a VOC annotation", offenders)
    return reader.found


class _Reader:
    """The handlers of one parse; ``wrong`` holds (line or None, what) of every mistake."""

    def __init__(self) -> None:
        self.found = Annotation()
        self.wrong: list[tuple[str | None, str]] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._entity
        self.parser.SkippedEntityHandler = self._entity
        self._open: list[str] = []
        self._text: list[str] | None = None

    def refuse(self, what: str) -> None:
        """Note a mistake at the present line."""
        self.wrong.append((str(self.parser.CurrentLineNumber), what))

    def _entity(self, name: str, *_: object) -> None:
        raise ValueError(f"the entity {name!r} is not read: a VOC file has none, and entities can do harm")

    def _start(self, tag: str, _: dict[str, str]) -> None:
        self._open.append(tag.casefold())
        depth = len(self._open)
        if depth == 1 and self._open != ["annotation"]:
            self.refuse(f"the root is <{tag}>, not <annotation>")
        if depth == 2 and self._open[1] == "object":
            self.found.objects.append(Object(self.parser.CurrentLineNumber))
        self._text = [] if depth <= 3 and tuple(self._open[1:]) in _TEXTS else None

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, _: str) -> None:
        if self._text is not None:
            self._take(self._open[-1], "".join(self._text).strip())
        self._text = None
        if len(self._open) == 2 and self._open[1] == "object" and not self.found.objects[-1].name:
            self.wrong.append((str(self.found.objects[-1].line), "object without a name"))
        self._open.pop()

    def _take(self, tag: str, text: str) -> None:
        if tag == "filename":
            self.found.filename = self.found.filename or text
            return
        thing = self.found.objects[-1]
        if tag == "name":
            if thing.name is not None:
                self.refuse(f"a second name of one object: {text[:40]}")
            thing.name = text
        elif canonical(text) in _DIFFICULT:
            thing.difficult = _DIFFICULT[canonical(text)]
        else:
            self.refuse(f"difficult is 0 or 1, not {text[:40]}")
