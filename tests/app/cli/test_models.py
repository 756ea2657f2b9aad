"""The commands that use a trained model, on a folder of many kinds of files."""

from __future__ import annotations

import json

import pytest

from partlabel.app.cli import main
from partlabel.models.config import ModelConfig
from partlabel.models.model import Model


@pytest.mark.shared_data
def test_every_type_that_is_decoded_is_predicted_and_the_others_are_named(shared, tmp_path, capsys):
    """PICT-01: .jfif, .jpe, .avif, .jp2, .ppm and a name without ending; .heic and .dcm with the way out."""
    Model(ModelConfig(backbone="test_resnet", weights="none"), ["a", "b"], 32).save(tmp_path / "run")
    folder, out = shared / "cases" / "PICT-01" / "newpics", tmp_path / "pred.csv"
    assert main(["predict", str(tmp_path / "run"), str(folder), "-o", str(out), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["pictures"] == 9
    named = {line.split(",")[0].strip('"') for line in out.read_text().splitlines()[1:]}
    assert {"whatsapp.jfif", "scan.jpe", "web.avif", "sat.jp2", "x.ppm", "no_ending", "UPPER.JPEG"} <= named
    assert [line.split(":")[0] for line in done["left_out"]] == ["phone.heic", "xray.dcm"]
    assert all("convert it" in line for line in done["left_out"])
    assert main(["predict", str(tmp_path / "run"), str(folder), "-o", str(out)]) == 0
    assert "left out: phone.heic: HEIC, which is not read; convert it to JPEG" in capsys.readouterr().out
