"""Write docs/cli.md and docs/commands/: what each command is for, an example with its output, and its options.

    python docs/write_cli.py          after a change of options
    python docs/write_cli.py --run    also runs the examples anew, on scenes of digits, and keeps what they print

tests/test_pages.py runs the same examples on few images and compares how each ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH = 80
ROOT = Path(__file__).resolve().parents[1]
INDEX, FOLDER = ROOT / "docs" / "cli.md", ROOT / "docs" / "commands"
OUTPUTS = FOLDER / "outputs.json"
HEAD = """\
# Commands

Each command explains itself with `--help`; its page here has an example with what it prints, and all of its options.
Every command takes `--json`: one JSON object on standard output, everything else on standard error. It exits with 0, or
with 2 after a mistake in a file or an option, in one plain sentence. The last line names the command that usually
follows.

"""
TAIL = """
The examples were run in this order, on scenes of handwritten digits: `python examples/make_scenes.py my_images 200`.
"""
#: the examples in their order, which is that of one job: each finds what those before it wrote
EXAMPLES = """\
partlabel import csv labels.csv --coding 1=present,0=absent,blank=unknown --images photos -o labels.parquet
partlabel inspect labels.parquet
partlabel simulate labels.parquet partial --proportion 0.2 -o fewer.parquet
partlabel train labels.parquet --images photos -o run
partlabel evaluate run run/validation.parquet --images photos
partlabel predict run new -o predictions.csv
partlabel relabel run labels.parquet --images photos --strategy score-threshold --theta 2 -o relabelled.parquet
partlabel thresholds run --by f1
partlabel report run --images photos -o report.html
partlabel complete run --images photos --precision 0.8 -o completed.parquet
partlabel suspects run --images photos -o suspects.csv
partlabel next run labels.parquet --images photos --budget 40 -o questions.csv
partlabel review run --images photos
partlabel labels answers labels.parquet questions.csv -o grown.parquet
partlabel labels diff labels.parquet grown.parquet
partlabel labels undo relabelled.parquet -o earlier.parquet
partlabel labels hold-out labels.parquet --share 0.2 -o train.parquet --held-out held.parquet
partlabel labels merge train.parquet held.parquet -o merged.parquet
partlabel export run --images photos -o model.onnx
partlabel download voc2007 --parts test -o voc2007
partlabel demo
""".splitlines()
#: that are not run by the tests of the pages: a server, the network, minutes
LEFT_OUT = ("review", "download", "demo")


def commands() -> list[tuple[str, ...]]:
    """List the commands in their order: (), ("import",), ("import", "csv"), ..."""
    from partlabel import formats
    from partlabel.app.cli import app, labels

    names = sorted((name for name in app if not name.startswith("-")), key=lambda name: app[name].sort_key)
    inner = {"import": list(formats.FORMATS), "labels": sorted(n for n in labels.group if not n.startswith("-"))}
    return [(), *((name, *more) for name in names for more in ((), *((own,) for own in inner.get(name, []))))]


def help_text(command: tuple[str, ...]) -> str:
    """Give the help of one command, as a terminal of fixed width without colours shows it."""
    from rich.console import Console

    from partlabel.app.cli import app

    printed = io.StringIO()
    app.help_print(list(command), console=Console(file=printed, width=WIDTH, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def example_of(command: tuple[str, ...]) -> str | None:
    """Give the example of a command."""
    return next((line for line in EXAMPLES if tuple(shlex.split(line)[1 : 1 + len(command)]) == command), None)


def page(name: str, outputs: dict[str, str]) -> str:
    """Give the page of one command, those inside it included."""
    parts = []
    for command in commands():
        if command[:1] != (name,):
            continue
        parts.append(f"{'#' * len(command)} partlabel {' '.join(command)}\n")
        example = example_of(command)
        inside = name == "import" and len(command) == 1
        if example is not None and not inside and not (name == "labels" and len(command) == 1):
            parts.append(f"```console\n$ {example}\n{outputs.get(example, '')}".rstrip() + "\n```\n")
        elif name == "import" and len(command) == 2:
            parts.append("Files of this kind, and what is made of them: [Annotation formats](../formats.md).\n")
        parts.append(f"```\n{help_text(command)}\n```\n")
    return "\n".join(parts)


def index() -> str:
    """Give the overview."""
    rows = ["| command | what it does |", "|---|---|"]
    for command in commands():
        if len(command) == 1:
            first = re.split(r"\n\n", help_text(command), maxsplit=2)[1].replace("\n", " ")
            rows.append(f"| [{command[0]}](commands/{command[0]}.md) | {first} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


def reference() -> dict[Path, str]:
    """Give every page by its path."""
    outputs = json.loads(OUTPUTS.read_text(encoding="utf-8"))
    names = [command[0] for command in commands() if len(command) == 1]
    return {INDEX: index(), **{FOLDER / f"{name}.md": page(name, outputs) for name in names}}


def prepare(count: int) -> None:
    """Put images and a table with holes into the current folder, as examples/make_scenes.py does."""
    script = ROOT / "examples" / "make_scenes.py"
    subprocess.run([sys.executable, str(script), ".", str(count)], check=True, capture_output=True)


def answer(questions: Path, count: int) -> None:
    """Fill in the column answer of a file of questions; the scenes are drawn again to know the truth."""
    import csv

    from partlabel.app.demo.digits import CLASSES, draw_scenes

    truth = {f"{i:04}.jpg": scene.labels() for i, scene in enumerate(draw_scenes("train", count, seed=0))}
    with open(questions, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["answer"] = "present" if truth[row["image"]][CLASSES.index(row["class"])] > 0 else "absent"
    with open(questions, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def run(line: str, count: int) -> str:
    """Run an example in the current folder and give what it printed.

    Raises:
        RuntimeError: it did not end well.
    """
    from partlabel.app.cli import main

    words = shlex.split(line)
    if words[1:3] == ["labels", "answers"]:
        answer(Path("questions.csv"), count)
    if words[1] == "review":
        server = subprocess.Popen([sys.executable, "-m", *words, "--port", "0"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        said = [server.stdout.readline().rstrip() for _ in range(2)]
        server.send_signal(signal.SIGINT)
        server.wait()
        return re.sub(r"127.0.0.1:\d+", "127.0.0.1:8000", "\n".join(said))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(words[1:])
    if code:
        raise RuntimeError(f"{line}: exit code {code}")
    return printed.getvalue().strip()


def record() -> None:
    """Run all examples and keep what they print."""
    outputs, count = {}, 200
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare(count)
        for line in EXAMPLES:
            if "download" not in line:
                outputs[line] = run(line, count)
                print(line, file=sys.stderr)
    OUTPUTS.write_text(json.dumps(outputs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if "--run" in sys.argv:
        record()
    for path, text in reference().items():
        path.write_text(text, encoding="utf-8")
