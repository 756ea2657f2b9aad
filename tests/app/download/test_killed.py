"""Downloads that are killed go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from partlabel.app.download import download
from tests.app.download.archives import zip_of
from tests.app.download.server import left

RUN = """
import sys
from pathlib import Path
from partlabel.app.download import download
download("nuswide-lists", Path(sys.argv[1]), ["images"], mirror=sys.argv[2])
"""
SLOW_RUN = f"""
import time
from partlabel.app.download import unpacking
write = unpacking._write
def slow(archive, member, path):
    write(archive, member, path)
    if path.name == "1.txt":
        time.sleep(600)
unpacking._write = slow
{RUN}"""


def killed(process: subprocess.Popen, ready) -> None:
    """Kill a process, as nothing can catch, once ``ready()`` holds."""
    deadline = time.monotonic() + 600
    while not ready():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.linux
def test_killed_while_fetching(mirror, tmp_path):
    file = mirror.files["/nuswide-lists/ImageList.zip"]
    file.body = zip_of({"Imagelist.txt": os.urandom(300_000)})
    file.hang_after = 200_000
    part = tmp_path / "ImageList.zip.part"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path), mirror.address], stderr=subprocess.DEVNULL
    ) as process:
        killed(process, lambda: part.exists() and (tmp_path / "ImageList.zip.part.json").exists())
    assert "ImageList.zip" not in left(tmp_path)
    part.write_bytes(file.body[:200_000])  # what a kill some milliseconds later would have left
    file.hang_after = None
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert mirror.asked[-1] == ("/nuswide-lists/ImageList.zip", "bytes=200000-")
    assert len((tmp_path / "ImageList" / "Imagelist.txt").read_bytes()) == 300_000


@pytest.mark.linux
def test_killed_while_unpacking(mirror, tmp_path):
    mirror.files["/nuswide-lists/ImageList.zip"].body = zip_of({f"{number}.txt": b"x" for number in range(4)})
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, str(tmp_path), mirror.address], stderr=subprocess.DEVNULL
    ) as process:
        killed(process, (tmp_path / ".ImageList.unpacking" / "1.txt").exists)
    assert left(tmp_path / ".ImageList.unpacking") == ["0.txt", "1.txt"]
    assert not (tmp_path / "ImageList").exists()
    download("nuswide-lists", tmp_path, ["images"], mirror=mirror.address)
    assert left(tmp_path / "ImageList") == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert not (tmp_path / ".ImageList.unpacking").exists()
    assert [path for path, _ in mirror.asked].count("/nuswide-lists/ImageList.zip") == 1
