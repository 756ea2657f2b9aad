"""The documentation says what is there: symbols, commands, folders, links."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EQUATIONS = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SYMBOLS = sorted(set(re.findall(r"`(partlabel(?:\.\w+)+)`", EQUATIONS)))
REFERENCES = sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", EQUATIONS)))
OUTSIDE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES = [*OUTSIDE, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def resolve(symbol: str):
    """Import the longest module of a dotted name and look the rest up in it."""
    parts = symbol.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is None or not symbol.startswith(error.name):
                raise
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise LookupError(symbol)


def test_equations_name_the_core_of_the_paper():
    for symbol in ("loss.partial_bce", "loss.solve_g", "graph.LabelGraph", "pooling.WeldonPool2d"):
        assert f"partlabel.method.{symbol}" in SYMBOLS


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_of_the_equations_exists(symbol):
    assert callable(resolve(symbol))


def test_a_symbol_that_does_not_exist_is_found_out():
    with pytest.raises((AttributeError, LookupError)):
        resolve("partlabel.method.loss.no_such_loss")


@pytest.mark.parametrize("path", REFERENCES)
def test_every_reference_of_the_equations_exists(path):
    assert (ROOT / path).is_file()


def test_metrics_of_the_equations_are_results():
    from partlabel.metrics import Metrics

    for name in ("mean_ap", "zero_one", "zero_one_full_rows", "macro_f1", "micro_f1"):
        assert name in Metrics.__dataclass_fields__ or hasattr(Metrics, name)
    for name in ("pc_precision", "pc_recall", "ov_precision", "ov_recall"):
        assert name in Metrics.__dataclass_fields__ or hasattr(Metrics, name)


def test_public_names_are_there_and_importing_them_stays_light():
    import partlabel

    for name in partlabel.__all__:
        assert getattr(partlabel, name) is not None
        assert name in dir(partlabel)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = partlabel.no_such_name
    heavy = "import sys, partlabel; print([m for m in ('torch', 'numpy', 'pyarrow', 'cyclopts') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout == "[]\n"


def writer(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="docstrings lose their indentation, and lists look otherwise")
def test_cli_reference_is_current():
    pages = writer("write_cli").reference()
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: python docs/write_cli.py"
    assert set((ROOT / "docs" / "commands").glob("*.md")) == set(pages) - {ROOT / "docs" / "cli.md"}


def test_settings_are_current_and_each_says_what_it_does():
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == writer("write_settings").reference(), "docs/settings.md: python docs/write_settings.py"
    rows = [line for line in written.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    assert len(rows) > 40
    assert [row for row in rows if row.endswith("|  |")] == []


def test_tables_of_the_guide_are_current():
    module, written = writer("write_tables"), (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert written == module.guide(written), "docs/guide.md is out of date: python docs/write_tables.py"
    assert all(f"| `{name}` |" in written for name in [*module.LOSSES, *module.STRATEGIES])


def tree() -> dict[str, str]:
    """Read the folder tree of the architecture page: path from the root -> what it is for."""
    block = ARCHITECTURE.split("## The folders")[1].split("```")[1]
    found, folders = {}, []
    for line in block.strip("\n").splitlines():
        indent = (len(line) - len(line.lstrip())) // 2
        name, _, words = line.strip().partition("  ")
        folders[indent:] = [name.rstrip("/")]
        found["/".join(folders)] = words.strip()
    return found


def layers() -> list[str]:
    """List the rooms of import-linter's contract, the lowest first."""
    contract = next(c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return contract["layers"][::-1]


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        pytest.skip("needs the repository's list of files")
    return listed.stdout.splitlines()


def test_tree_names_what_is_there():
    found = tree()
    rooms = [f"src/partlabel/{room}" for room in layers()]
    assert [path for path in found if path in rooms] == rooms
    for path, words in found.items():
        assert list(ROOT.glob(path)), f"{path} is in docs/architecture.md and not in the repository"
        assert words or path in rooms, f"{path} has no description"


def test_tree_is_complete():
    here = {entry for path in tracked() for entry in (path.split("/")[0], "/".join(path.split("/")[:3]))}
    here = {path for path in here if "/" not in path or path.startswith("src/partlabel/")}
    silent = {".gitignore", "src/partlabel/py.typed", "src/partlabel/__init__.py"}
    assert here - silent - set(tree()) - {"src"} == set()


def test_rooms_are_described_in_the_order_of_their_imports():
    assert re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.MULTILINE) == layers()


def test_one_version_and_one_date():
    version = PROJECT["project"]["version"]
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    first = re.search(r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first.groups() == (version, cited["date-released"])
    assert cited["version"] == version


def test_every_page_is_on_the_site():
    """Pages in docs/ stand in the navigation; those outside are taken along, and their links lead to them."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    listed = set(re.findall(r"^ +- [\w ]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    inside = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert inside <= listed
    assert listed - inside <= set(pages.OUTSIDE.values())
    assert set(OUTSIDE) <= set(pages.OUTSIDE)
    assert pages.moved("[a](docs/guide.md) [b](../RESULTS.md#x) ![c](docs/demo.png)") == (
        "[a](guide.md) [b](results.md#x) ![c](demo.png)"
    )
    assert pages.moved("[a](../guide.md#x) [b](../../SECURITY.md) [c](ask.md)", depth=1) == (
        "[a](../guide.md#x) [b](../security.md) [c](ask.md)"
    )


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://")):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_pages_exist(page):
    from partlabel.app.cli import app

    text = (ROOT / page).read_text(encoding="utf-8")
    blocks, prose = (
        re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL),
        re.sub(r"```.*?```", "", text, flags=re.DOTALL),
    )
    code = [line.strip() for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", prose)
    names = {match[1] for line in code if (match := re.match(r"partlabel ([a-z][a-z+-]*)", line))}
    assert names <= set(app), f"{page} names commands that do not exist"


def test_pins_cover_the_requirements():
    project = PROJECT["project"]
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
    )
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["docs"]]
    names = {re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in wanted}
    assert names <= set(pins)


def test_messages_of_the_troubleshooting_page_are_said():
    """The words in quotes, joined where the code breaks a line; a name in a message stands as three dots."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    said = re.sub(r'"\s+f?"', "", code)
    quoted = [part.strip() for text in re.findall(r'^\*\*"([^"]+)"', page, re.MULTILINE) for part in text.split("...")]
    assert len(quoted) > 4
    assert [text for text in quoted if text not in said] == []
