"""Write docs/settings.md, every setting of a training from its dataclasses; run as `python docs/write_settings.py`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

from partlabel.training.config import Config
from partlabel.training.presets import PRESETS

TARGET = Path(__file__).with_name("settings.md")
HEAD = """\
# Settings

Every setting of a training, with its default. They stand in a TOML file (`partlabel train --config settings.toml`;
each run holds its own as `config.toml`), or are given from Python with two underscores for the point:
`Config.preset("small").replace(optim__epochs=5)`. The flags of `partlabel train --help` change the most used ones.
A name that does not exist, or a value out of its range, is refused, all of them at once.

```toml
validation = 0.2

[optim]
epochs = 5
```

A preset is a set of values that differ from these defaults. The small one is taken where nobody chooses.
"""


def reference() -> str:
    """Give the whole page. This file is written by `python docs/write_settings.py`."""
    parts = [HEAD, *_presets(), *_section("", Config)]
    for field in dataclasses.fields(Config):
        kind = _kind(field)
        if kind is not None:
            parts += _section(field.name, kind)
    return "\n".join(parts)


def _presets() -> list[str]:
    rows = [f"| `{name}` | {preset.what} |" for name, preset in PRESETS.items()]
    return ["| preset | what it does |", "|---|---|", *rows, ""]


def _kind(field: dataclasses.Field[Any]) -> type[Any] | None:
    made = field.default_factory() if field.default_factory is not dataclasses.MISSING else None  # type: ignore[misc]
    return type(made) if dataclasses.is_dataclass(made) else None


def _section(name: str, kind: type[Any]) -> list[str]:
    title = f"## [{name}]" if name else "## Outside of any section"
    words, types = _words(kind)
    rows = []
    for field in dataclasses.fields(kind):
        if _kind(field) is None:
            rows.append(f"| `{field.name}` | {_value(field)} | {types[field.name]} | {words.get(field.name, '')} |")
    about = [] if not name else [" ".join((inspect.getdoc(kind) or "").replace("``", "`").split()), ""]
    return [title, "", *about, "| name | default | values | what it does |", "|---|---|---|---|", *rows, ""]


def _value(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return '`""`' if value == "" else f"`{value}`"


def _words(kind: type[Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The comment above or beside each field, and what its values are."""
    source = inspect.getsource(kind)
    lines, words, types = source.splitlines(), {}, {}
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)).body
    for node in body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above, at = [], node.lineno - 2
        while lines[at].strip().startswith("#:"):
            above.insert(0, lines[at].strip().removeprefix("#:").strip())
            at -= 1
        above += [part.strip() for part in lines[node.lineno - 1].split("#:")[1:]]
        said = " ".join(above).replace("``", "`").replace("|", "\\|")
        words[node.target.id] = said[:1].upper() + said[1:]
        types[node.target.id] = _values(ast.unparse(node.annotation))
    return words, types


def _values(annotation: str) -> str:
    choices = re.findall(r"'([^']*)'", annotation)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    names = {"int": "whole number", "float": "number", "str": "text", "bool": "true, false", "None": "none"}
    names["tuple[int, ...]"] = "list of whole numbers"
    return " or ".join(names.get(part.strip(), part.strip()) for part in annotation.split(" | "))


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
