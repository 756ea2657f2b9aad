"""Write the tables of presets, losses and strategies into docs/guide.md; run as `python docs/write_tables.py`."""

from __future__ import annotations

import re
from pathlib import Path

from partlabel.method.losses import LOSSES
from partlabel.method.strategies import STRATEGIES
from partlabel.training.presets import descriptions

TARGET = Path(__file__).with_name("guide.md")


def tables() -> dict[str, list[str]]:
    """Give the lines of each table by its name."""
    losses = [f"| `{name}` | {loss.unknown} | {loss.source} |" for name, loss in LOSSES.items()]
    strategies = [
        f"| `{name}` | {strategy.when} | {'-' if strategy.theta is None else f'{strategy.theta:g}'} |"
        for name, strategy in STRATEGIES.items()
    ]
    presets = [f"| `{name}` | {what} |" for name, what in descriptions().items()]
    return {
        "presets": ["| `--preset` | what it does |", "|---|---|", *presets],
        "losses": ["| `--loss` | an unknown label is | from |", "|---|---|---|", *losses],
        "strategies": ["| `--strategy` | fills in an unknown label when | theta |", "|---|---|---|", *strategies],
    }


def guide(text: str) -> str:
    """Give the guide with its tables as they should be."""
    for name, lines in tables().items():
        begin, end = f"<!-- {name}: python docs/write_tables.py -->\n", f"<!-- end of {name} -->\n"
        body = begin + "\n".join(["", *lines, "", ""]) + end
        text = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _, body=body: body, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    TARGET.write_text(guide(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
