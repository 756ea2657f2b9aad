"""The examples of docs/commands/ and of docs/howto/ run, on few images, and end as the pages show."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from partlabel.app.cli import app, main
from tests.page_writers import page_writer

ROOT = Path(__file__).resolve().parents[1]
HOWTO = sorted((ROOT / "docs" / "howto").glob("*.md"))
IMAGES = 40
#: what the pages of docs/howto begin with
BEGIN = ("import", "train")

WRITER = page_writer("write_cli")


def shown(text: str) -> list[tuple[str, list[str]]]:
    """Each command of a page, with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in "\n".join(re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line:
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, their table, and the run of the first examples."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PARTLABEL_CACHE", str(folder.parent / "cache"))
        WRITER.prepare(IMAGES)
        for name in BEGIN:
            assert main(shlex.split(WRITER.example_of((name,)))[1:]) == 0
    return folder


@pytest.fixture
def place(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as current folder."""
    shutil.copytree(begun, tmp_path / "my_images")
    monkeypatch.chdir(tmp_path / "my_images")
    monkeypatch.setenv("PARTLABEL_CACHE", str(begun.parent / "cache"))
    return tmp_path / "my_images"


@pytest.mark.slow
def test_the_examples_of_the_commands_run_and_end_as_their_pages_show(place: Path) -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted(WRITER.FOLDER.glob("*.md")))
    outputs = dict(shown(pages))
    assert set(outputs) == set(WRITER.EXAMPLES)
    shutil.rmtree("run")
    for line in WRITER.EXAMPLES:
        name = shlex.split(line)[1]
        if name in WRITER.LEFT_OUT:
            app.parse_args(shlex.split(line)[1:], print_error=False, exit_on_error=False)
        else:
            assert WRITER.run(line, IMAGES).splitlines()[-1] == outputs[line][-1], line


def test_every_command_has_an_example() -> None:
    for command in WRITER.commands():
        if command and command[0] != "import" and command != ("labels",):
            assert WRITER.example_of(command), command


@pytest.mark.slow
@pytest.mark.parametrize("page", HOWTO, ids=lambda path: path.stem)
def test_what_a_page_tells_to_do_can_be_done(page: Path, place: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line, below in shown(text):
        said = WRITER.run(line, IMAGES)
        if below:
            assert said.splitlines()[-1] == below[-1], line
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(code, names)
