"""The command ``download``."""

from __future__ import annotations

import json
import shlex

import pytest

from partlabel.app.download import DATASETS, download


def test_the_command(mirror, tmp_path, capsys):
    from partlabel.app.cli import main

    assert main(["download", "voc2007", "-o", str(tmp_path / "data"), "--mirror", mirror.address, "--json"]) == 0
    out, _ = capsys.readouterr()
    result = json.loads(out)
    assert [file["state"] for file in result["files"]] == ["fetched", "fetched"]
    assert result["files"] == list(json.loads((tmp_path / "data" / "download.json").read_text()).values())
    words = ["download", "voc2007", "-o", str(tmp_path / "data"), "--parts", "test", "--mirror", mirror.address]
    assert main(words) == 0
    out, _ = capsys.readouterr()
    assert "VOCtest_06-Nov-2007.tar: here already" in out
    assert "Terms: " in out
    assert f"partlabel import voc {tmp_path}/data/VOCdevkit/VOC2007 --set test" in out


@pytest.mark.parametrize("name", list(DATASETS))
def test_the_commands_that_come_next_work(mirror, tmp_path, capsys, monkeypatch, name):
    from partlabel.app.cli import main
    from partlabel.labels.table import LabelTable

    parts = ["boxable", "human", "machine"] if name == "openimages" else []
    done = download(name, tmp_path / "my data", parts, mirror=mirror.address)
    monkeypatch.chdir(tmp_path)
    for command in done.next:
        words = shlex.split(command)
        assert main(words[1:]) == 0, capsys.readouterr().err
        assert LabelTable.read_parquet(words[-1]).num_known >= 1
    assert len(done.next) == {"voc2007": 2, "coco2014": 1, "openimages": 9, "nuswide-lists": 1}[name]


def test_the_command_explains_what_failed(server, tmp_path, capsys):
    from partlabel.app.cli import main

    assert main(["download", "voc2007", "-o", str(tmp_path), "--mirror", server.address]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"partlabel: {server.address}/voc2007/VOCtrainval_06-Nov-2007.tar cannot be fetched: ")
    assert f"  {server.address}/voc2007/VOCtest_06-Nov-2007.tar -> {tmp_path}/VOCtest_06-Nov-2007.tar" in err
