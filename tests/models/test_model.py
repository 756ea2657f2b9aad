import dataclasses

import numpy as np
import pytest
import torch

from partlabel.core.errors import UserError
from partlabel.models.model import Model
from partlabel.training.config import ModelConfig

CLASSES = ["cat", "dog", "red car"]


def build(backbone="test_resnet", size=32, **changes) -> Model:
    torch.manual_seed(0)
    return Model(ModelConfig(backbone=backbone, weights="none", **changes), CLASSES, size, ["7", "3", "1"]).eval()


def pictures(count=2, size=32) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


BACKBONES = ["test_resnet", "test_efficientnet", "test_convnext", "mobilenetv3_small_050", "test_vit", "test_byobnet"]


@pytest.mark.parametrize("backbone", BACKBONES)
def test_stages_are_the_backbone(backbone):
    """The stages one after the other are timm's own forward_features; the model is the same from any stage on."""
    size = 160 if backbone == "test_vit" else 64
    model = build(backbone, size)
    x = model.normalise(pictures(size=size))
    with torch.no_grad():
        final = model.backbone.net.forward_features(x)
        maps = model.backbone(x)
        if final.shape == maps.shape:
            assert torch.equal(final, maps)
        whole = model(pictures(size=size))
        assert whole.shape == (2, 3)
        for stage in range(1, model.backbone.num_stages + 1):
            assert torch.allclose(model(model.features(pictures(size=size), stage), stage), whole, atol=1e-6)


def test_a_vision_transformer_gives_its_class_token_and_the_mean_of_its_patches():
    model = build("test_vit", 160, pooling="average")
    assert model.backbone.num_stages == 1 + len(model.backbone.net.blocks)
    x = model.normalise(pictures(size=160))
    with torch.no_grad():
        tokens = model.backbone.net.forward_features(x)
        expected = torch.cat([tokens[:, 1:].mean(1), tokens[:, 0]], 1)
        assert torch.allclose(
            model.features(pictures(size=160), model.backbone.num_stages).flatten(1), expected, atol=1e-6
        )


def test_freezing_the_first_blocks_of_a_transformer_freezes_its_positions():
    model = build("test_vit", 160)
    model.freeze(2)
    still = {name.removeprefix("backbone.net.") for name, p in model.named_parameters() if not p.requires_grad}
    assert {"pos_embed", "cls_token", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight"} <= still
    assert not any(name.startswith("blocks.1") for name in still)


def test_head_by_hand():
    """WELDON at k = 0.1 of 16 regions: the highest plus the lowest of the score map."""
    model = build(size=64)
    with torch.no_grad():
        maps = model.head.classifier(model.backbone(model.normalise(pictures(size=64)))).flatten(2)
        assert maps.shape[-1] < 20
        assert torch.allclose(model(pictures(size=64)), maps.amax(2) + maps.amin(2), atol=1e-6)
        average = build(size=64, pooling="average")
        maps = average.backbone(average.normalise(pictures(size=64)))
        expected = average.head.classifier(maps.mean((2, 3), keepdim=True)).flatten(1)
        assert torch.allclose(average(pictures(size=64)), expected, atol=1e-6)


def test_pixels_are_normalised_by_hand():
    model = build()
    mean, std = np.array(model.preprocessing.mean), np.array(model.preprocessing.std)
    expected = (pictures().numpy() / 255 - mean[:, None, None]) / std[:, None, None]
    assert np.allclose(model.normalise(pictures()).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["weldon", "average"])
def test_standardising_is_the_same_folded_and_plain(pooling):
    model = build(pooling=pooling, dropout=0.5)
    features = torch.randn(8, model.backbone.channels, 2, 2) * 3 + 1
    mean, std = features.mean((0, 2, 3)), features.std((0, 2, 3))
    std[0] = 0
    model.head.standardise(mean, std)
    with torch.no_grad():
        folded = model.head(features)
        standard = (features - mean[:, None, None]) * torch.where(std > 0, 1 / std, 1.0)[:, None, None]
        plain = build(pooling=pooling).head
        plain.classifier.load_state_dict(model.head.classifier.state_dict())
        assert torch.allclose(folded, plain(standard), atol=1e-4)


def test_dropout_acts_in_training_only():
    model = build(dropout=0.5)
    with torch.no_grad():
        assert torch.equal(model(pictures()), model(pictures()))
        model.head.train()
        assert not torch.equal(model(pictures()), model(pictures()))


def test_save_and_load_without_network(tmp_path, monkeypatch):
    model = build(graph=True, dropout=0.3, stages=3)
    model.thresholds = (0.5, -1.0, 0.0)
    model.save(tmp_path / "m")
    monkeypatch.setattr("socket.socket", None)
    loaded = Model.load(tmp_path / "m")
    assert (loaded.classes, loaded.class_ids) == (tuple(CLASSES), ("7", "3", "1"))
    assert (loaded.thresholds, loaded.preprocessing) == (model.thresholds, model.preprocessing)
    assert loaded.config == model.config
    assert not loaded.training
    with torch.no_grad():
        assert torch.equal(loaded(pictures()), model(pictures()))


def test_load_takes_the_best_or_the_last_of_a_run(tmp_path):
    build().save(tmp_path / "best")
    other = build()
    torch.nn.init.zeros_(other.head.classifier.weight)
    other.save(tmp_path / "last")
    assert Model.load(tmp_path).head.classifier.weight.abs().sum() > 0
    assert Model.load(tmp_path, which="last").head.classifier.weight.abs().sum() == 0


def test_damaged_folders_are_one_error(tmp_path):
    with pytest.raises(UserError, match="holds no model"):
        Model.load(tmp_path)
    build().save(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"model\.safetensors"):
        Model.load(tmp_path)
    weights.write_bytes(whole)
    text = (tmp_path / "model.toml").read_text()
    (tmp_path / "model.toml").write_text(text.replace("version = 1", "version = 9"))
    with pytest.raises(UserError, match="version 9"):
        Model.load(tmp_path)
    (tmp_path / "model.toml").write_text(text.replace("[preprocessing]", "[other]"))
    with pytest.raises(UserError, match=r"model\.toml"):
        Model.load(tmp_path)


def test_freeze_and_stages_beyond_the_backbone():
    model = build()
    model.freeze(2)
    assert {name.split(".")[2] for name, p in model.named_parameters() if not p.requires_grad} == {
        "conv1",
        "bn1",
        "layer1",
    }
    with pytest.raises(UserError, match="5 stages; 6"):
        model.freeze(6)
    with pytest.raises(UserError, match="has 5 stages, not 9"):
        build(stages=9)


def test_first_stages_only():
    full, cut = build(), build(stages=2)
    assert cut.backbone.num_stages == 2
    assert sum(p.numel() for p in cut.parameters()) < sum(p.numel() for p in full.parameters())
    with torch.no_grad():
        assert cut(pictures()).shape == (2, 3)
    assert not any("layer3" in name for name, _ in cut.named_parameters())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_gradient_reaches_every_parameter(backbone):
    """Also what several processes need: a parameter without a gradient stops them."""
    size = 160 if backbone == "test_vit" else 64
    model = build(backbone, size, graph=True).train()
    model(pictures(4, size)).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["poolformerv2_s12", "vgg11", "cait_xxs24_224"])
def test_parameters_without_use_are_not_trained(backbone):
    """Several processes would wait for their gradients."""
    size = 224 if backbone.startswith("cait") else 64
    model = build(backbone, size).train()
    model.freeze(0)
    model(pictures(2, size)).sum().backward()
    assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
    assert sum(p.grad is not None for p in model.backbone.parameters()) > 10


def test_unknown_backbones_run_once(monkeypatch):
    model, calls = build("test_vit_relpos", 160), []
    block = model.backbone.net.blocks[0]
    monkeypatch.setattr(block, "forward", lambda x, *a, _f=block.forward, **k: calls.append(1) or _f(x, *a, **k))
    model(pictures(size=160))
    assert len(calls) == 1


def test_classes_of_an_earlier_model_are_matched_by_name(tmp_path):
    """NEWCLASS-01: the same classes in another order, one more, or none of them."""
    first = build(graph=True)
    torch.nn.init.normal_(first.head.classifier.bias)
    first.save(tmp_path)
    config = dataclasses.replace(first.config, weights=str(tmp_path))
    turned = Model(config, CLASSES[::-1], 32)
    assert torch.equal(turned.head.classifier.weight, first.head.classifier.weight.flip(0))
    assert torch.equal(turned.head.classifier.bias, first.head.classifier.bias.flip(0))
    assert turned.start_note == f"going on from {tmp_path}: 3 classes as there"
    more = Model(config, ["zebra", CLASSES[1]], 32)
    assert torch.equal(more.head.classifier.weight[1], first.head.classifier.weight[1])
    assert more.head.classifier.bias[1] == first.head.classifier.bias[1]
    assert not torch.equal(more.head.classifier.weight[0], first.head.classifier.weight[0])
    assert more.start_note == f"going on from {tmp_path}: 1 classes as there, 1 new: zebra"
    other = Model(config, ["zebra"], 32)
    key = "backbone.net.layer1.0.conv1.weight"
    assert torch.equal(other.state_dict()[key], first.state_dict()[key])


def test_starts_from_an_earlier_model(tmp_path):
    first = build()
    torch.nn.init.normal_(first.head.classifier.bias)
    first.save(tmp_path)
    again = Model(dataclasses.replace(first.config, weights=str(tmp_path), dropout=0.2), CLASSES, 64).eval()
    assert again.preprocessing.size == 64
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in first.state_dict().items())
    with_graph = Model(dataclasses.replace(first.config, weights=str(tmp_path), graph=True), CLASSES, 32)
    assert torch.equal(with_graph.head.classifier.bias, first.head.classifier.bias)
    with pytest.raises(UserError, match="another network"):
        Model(dataclasses.replace(first.config, weights=str(tmp_path), stages=2), CLASSES, 32)


def test_whoever_reads_new_files_reads_the_weights(tmp_path):
    build().save(tmp_path)
    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) > 1
    assert len(set(modes.values())) == 1, modes
