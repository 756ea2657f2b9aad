"""What Windows refuses, lacks and spells otherwise, tried on Linux; tests/systems/windows.py says what is pretended."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from partlabel.app.cli import main
from partlabel.core.files import is_running
from partlabel.core.text import speak_any_sign
from partlabel.labels.table import LabelTable
from tests.systems.windows import name_is_allowed

ROOT = Path(__file__).resolve().parents[2]
AS_WINDOWS = str(Path(__file__).parent / "as_windows")


def on_windows(*words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python on the disk of Windows, with the encoding of a Western one where nothing is said."""
    paths = [AS_WINDOWS, str(ROOT / "src"), str(ROOT)]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    return subprocess.run([sys.executable, *words], capture_output=True, env={**os.environ, **own, **more}, check=False)


REFUSALS = """
import mmap, os, sys
from pathlib import Path

def refused(act, *words):
    try:
        act(*words)
    except OSError:
        return True
    return False

folder = Path(sys.argv[1])
a, b = folder / "a", folder / "b"
a.write_bytes(b"1234")
b.write_bytes(b"5678")
with open(a, "rb") as file:
    assert refused(os.fsync, file.fileno())
    assert refused(os.replace, b, a) and refused(os.replace, a, b) and refused(a.unlink)
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
assert refused(os.replace, b, a) and refused(os.truncate, a, 0) and refused(folder.rename, f"{folder}.new")
mapped.close()
assert refused(os.rename, b, a) and refused(os.open, folder, os.O_RDONLY)
assert refused(open, folder / "nul.txt", "w") and refused(os.mkdir, folder / "a:b")
with open(a, "r+b") as file:
    os.fsync(file.fileno())
os.replace(b, a)
assert a.read_bytes() == b"5678" and os.listdir(folder) == ["a"]
"""


@pytest.mark.linux
def test_the_disk_refuses_what_windows_does(tmp_path):
    done = on_windows("-c", REFUSALS, str(tmp_path))
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.linux
@pytest.mark.slow
def test_every_command(tmp_path):
    done = on_windows("-m", "tests.systems.every_command", "207", str(tmp_path))
    assert done.returncode == 0, done.stderr.decode("cp1252")[-3000:]
    assert rb"\u732b" in done.stdout  # a cat that cp1252 has no letter for
    made = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert [name for name in made if not name_is_allowed(name)] == []
    folded = [name.casefold() for name in made]
    assert len(set(folded)) == len(folded)


FAILING = """
import os, sys
from pathlib import Path
import numpy as np
from partlabel.core import records
from partlabel.core.errors import UserError
from partlabel.core.files import replacing
from partlabel.tasks.prediction_files import Keep, PredictionWriter
from partlabel.training.curriculum import Spool

def fails(function, *given):
    try:
        function(*given)
    except ZeroDivisionError:
        return
    raise AssertionError(function)

def filled():
    def fill(array):
        part = array[1:]
        part[:] = 1 // 0
    records.fill_array(folder / "a", (5, 2), np.float32, fill)

def predicted(kind):
    scores = np.zeros((1, 2), np.float32)
    with replacing(folder / f"p.{kind}") as path, PredictionWriter.open(path, ["a", "b"], Keep(), kind=kind) as writer:
        writer.add(["image"], scores, scores, scores > 0)
        1 // 0

def spooled():
    with Spool(["a", "b"]) as spool:
        spool.add(np.arange(3), np.zeros((3, 2), np.float32))
        1 // 0

folder = Path(sys.argv[1])
fails(filled)
for kind in ("csv", "parquet", "shard"):
    fails(predicted, kind)
fails(spooled)
left = [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("partlabel")]
print(os.listdir(folder), left)
"""


@pytest.mark.linux
@pytest.mark.slow
def test_what_failed_leaves_no_file(tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "temporary").mkdir()
    done = on_windows("-c", FAILING, str(tmp_path / "to"), TMPDIR=str(tmp_path / "temporary"))
    assert done.stdout.split() == [b"[]", b"[]"], done.stderr.decode()[-2000:]


DAMAGED = """
import sys
from pathlib import Path
from partlabel.app.review import listing
from tests.app.review.test_listing import ASKED, CALIBRATION, board_of, drawn

table, scores = drawn(1)
for listing.ALL in (0, 10_000):
    folder = Path(sys.argv[1], str(listing.ALL))
    folder.mkdir()
    board_of(scores, table, folder, CALIBRATION, ASKED)
    for path in folder.glob("list-*.npy"):
        path.unlink()
        board_of(scores, table, folder, CALIBRATION, ASKED)
        assert path.exists()
"""


@pytest.mark.linux
@pytest.mark.slow
def test_arrays_of_a_review_are_made_again(tmp_path):
    """One is missing, as where a server was killed while it made them; the others are mapped to look at them."""
    done = on_windows("-c", DAMAGED, str(tmp_path))
    assert done.returncode == 0, done.stderr.decode()[-2000:]


EXTRACTED = """
import sys
from pathlib import Path
import pyarrow as pa
from partlabel.formats.huggingface.images import ImageFolder

folder = Path(sys.argv[1])
with ImageFolder(str(folder)) as images:
    images.save(pa.array([{"bytes": b"GIF89a"}]), pa.array(["a.gif"]), 0, str)
print(*(path.name for path in folder.iterdir()))
"""


@pytest.mark.linux
@pytest.mark.slow
def test_images_are_extracted_into_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    done = on_windows("-c", EXTRACTED, str(tmp_path / "empty"))
    assert done.stdout.split() == [b"a.gif"], done.stderr.decode()[-2000:]


UNGUARDED = """
import multiprocessing, sys
from partlabel.core.lock import holding
multiprocessing.set_start_method(sys.argv[2], force=True)
with holding(sys.argv[1], "partlabel train"):
    process = multiprocessing.Process(target=print)
    process.start()
    process.join(600)
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_that_guards_nothing_is_told_so(tmp_path, method):
    if method == "forkserver" and sys.platform == "win32":
        pytest.skip("Windows has spawn only")
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED.replace("sys.argv[1]", repr(str(tmp_path))).replace("sys.argv[2]", repr(method)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert 'put what it does behind `if __name__ == "__main__":`, or set workers=0' in done.stderr
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_any_sign_can_be_written(encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    speak_any_sign(stream)
    stream.write("Müller 猫 █▌░ ─ … 🐈\ud800")
    stream.flush()
    expected = {
        "cp1252": r"Müller \u732b ##. - … \U0001f408\ud800",
        "ascii": r"M\xfcller \u732b ##. - ... \U0001f408\ud800",
        "utf-8": r"Müller 猫 █▌░ ─ … 🐈\ud800",
    }
    assert stream.buffer.getvalue().decode(encoding) == expected[encoding]


@pytest.fixture
def cats(tmp_path) -> Path:
    path = tmp_path / "labels.parquet"
    LabelTable.from_dense(["a.png", "b.png"], ["猫", "\x7f"], [[1, -1], [0, 1]]).write_parquet(path)
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_a_command_in_an_old_encoding(cats, as_json, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["inspect", str(cats), *["--json"][: int(as_json)]]) == 0
    stream.flush()
    said = stream.buffer.getvalue().decode("cp1252")
    assert r"\u732b" in said
    if as_json:
        assert json.loads(said)["per_class"][1]["name"] == "\x7f"
    else:
        assert "# present . absent" in said


def test_no_image_found_is_an_error_even_where_missing_ones_are_skipped(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"x")
    table = tmp_path / "labels.csv"
    table.write_text("image,cat\nC:\\data\\photos\\a.png,1\n", encoding="utf-8")
    words = ["import", "csv", str(table), "--coding", "1=present,0=absent", "--images", str(tmp_path / "photos")]
    assert main([*words, "--missing", "skip", "-o", str(tmp_path / "t.parquet")]) == 2
    said = capsys.readouterr().err
    assert "1 of 1 images missing" in said
    assert r"C:\data\photos\a.png" in said
    assert not (tmp_path / "t.parquet").exists()


def test_a_process_that_ended_is_told_from_one_that_runs():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert is_running(process.pid)
    assert not is_running(process.pid)
    assert is_running(os.getpid())
