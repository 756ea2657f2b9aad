import pytest

from partlabel.core.errors import UserError
from partlabel.training.config import Config
from partlabel.training.presets import PRESETS


def test_paper_preset_is_the_papers_setting():
    paper = Config.preset("paper")
    assert (paper.model.backbone, paper.images.size, paper.images.flip) == ("resnet101.tv_in1k", 448, True)
    model = paper.model
    assert (model.pooling, model.k_max, model.k_min, model.graph_steps) == ("weldon", 0.1, 0.1, 3)
    optim = paper.optim
    assert (optim.name, optim.momentum, optim.weight_decay) == ("sgd", 0.9, 1e-4)
    assert (optim.head_learning_rate, optim.learning_rate) == (0.01, 0.001)
    assert (optim.epochs, optim.batch_size, optim.schedule, optim.step_after, optim.step_factor) == (
        20,
        16,
        "step",
        (10,),
        0.1,
    )
    assert (paper.loss.name, paper.loss.gamma, paper.loss.p0, paper.loss.value) == ("partial-bce", 1.0, 0.1, 5.0)
    assert paper.freeze == "none"


def test_the_papers_full_model_adds_graph_and_relabelling_to_it():
    full, paper = Config.preset("paper-full"), Config.preset("paper")
    assert full.model.graph
    relabel = full.relabel
    assert (relabel.before, relabel.strategy, relabel.threshold, relabel.samples) == ((10, 15), "uncertainty", 0.3, 50)
    assert full.replace(model__graph=False, model__dropout=0, relabel=paper.to_dict()["relabel"]) == paper


@pytest.mark.parametrize("preset", PRESETS)
def test_toml_round_trip(tmp_path, preset):
    config = Config.preset(preset).replace(optim__clip_norm=1.5, model__graph_hidden=8, seed=3)
    config.write(tmp_path / "run.toml")
    assert Config.read(tmp_path / "run.toml") == config


def test_none_is_left_out_and_read_back(tmp_path):
    Config.preset("paper").write(tmp_path / "run.toml")
    assert "clip_norm" not in (tmp_path / "run.toml").read_text()
    assert Config.read(tmp_path / "run.toml").optim.clip_norm is None


def test_all_values_out_of_range_are_listed():
    with pytest.raises(UserError) as caught:
        Config.preset("paper").replace(optim__epochs=0, model__dropout=1.0, freeze="half", loss__gamma=0.0)
    text = str(caught.value)
    for name in ("optim.epochs = 0", "model.dropout = 1.0", "freeze = 'half'", "loss.gamma = 0.0"):
        assert name in text


def test_settings_that_a_file_leaves_out_are_written_with_the_others(tmp_path):
    (tmp_path / "some.toml").write_text("[optim]\nepochs = 3\n")
    Config.read(tmp_path / "some.toml").write(tmp_path / "all.toml")
    assert {"seed = 0", "batch_size = 16", "epochs = 3"} <= set((tmp_path / "all.toml").read_text().splitlines())


def test_unknown_settings_are_listed(tmp_path):
    (tmp_path / "run.toml").write_text("sed = 1\n[optim]\nlerning_rate = 0.1\n")
    with pytest.raises(UserError) as caught:
        Config.read(tmp_path / "run.toml")
    assert caught.value.offenders == ["sed", "optim.lerning_rate"]
    assert "run.toml" in str(caught.value)


def test_settings_of_earlier_versions_are_passed_over():
    assert Config.from_dict({"channels_last": False, "relabel": {"warn_share": 0.5}}) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[optim\n", "line 1"),
        ("[optim]\nepochs = 'ten'\n", r"optim\.epochs"),
        ("[optim]\nname = 'lion'\n", "lion"),
        ("[model]\ndropout = 2.0\n", r"model\.dropout = 2\.0"),
    ],
)
def test_bad_files_are_explained(tmp_path, text, message):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        Config.read(tmp_path / "run.toml")


def test_missing_file_and_preset(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: cannot be read"):
        Config.read(tmp_path / "none.toml")
    with pytest.raises(UserError, match="small, small-tuned, gpu, paper, paper-full"):
        Config.preset("large")
