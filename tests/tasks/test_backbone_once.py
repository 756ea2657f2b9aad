"""The backbone sees each image once, whatever is done with a run: training, then every command after it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from partlabel import Run, complete, evaluate, next_labels, predict, suspects, train
from partlabel.app.review.scores import Judge, ScoreShelf
from partlabel.images import content_hash
from partlabel.models.backbone import Backbone
from tests.pictures import make_pictures, tiny_config

IMAGES, OTHERS = 100, 80


@pytest.fixture
def seen(monkeypatch):
    """How often the backbone has run over each image, from its first stage on; blank images are only probes."""
    count: Counter[bytes] = Counter()
    original = Backbone.forward

    def forward(self, images, first=0, last=None):
        if first == 0:
            for image in images:
                if float(image.std()) > 0:
                    count[np.round(image.contiguous().numpy(), 3).tobytes()] += 1
        return original(self, images, first, last)

    monkeypatch.setattr(Backbone, "forward", forward)
    return count


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    table = make_pictures(tmp_path / "pictures", IMAGES + OTHERS)
    keep = np.random.default_rng(0).random(table.num_known) < 0.7
    known = table.hide(keep)
    return known.select(np.arange(IMAGES)), known.select(np.arange(IMAGES, IMAGES + OTHERS)), tmp_path


def use_everything(run: Run, own, other, folder: Path, seen) -> None:
    """Every command that scores images, each twice, on the run's images and on others."""
    pictures = folder / "pictures"
    both = own.merge(other)
    for _ in range(2):
        for table in (own, other, both):
            for command, words in ((evaluate, {}), (next_labels, {"budget": 5}), (suspects, {})):
                command(run, table, images=pictures, **words)
                assert set(seen.values()) <= {1}, f"{command.__name__} of {table.num_images} images"
        complete(run, images=pictures, precision=0.6, confidence=0.6)
        complete(run, own, images=pictures, precision=0.6, confidence=0.6)
        complete(run, other, images=pictures, precision=0.6, confidence=0.6)
        predict(run, pictures)
        assert set(seen.values()) <= {1}, "complete or predict"
    paths = [pictures / name for name in both.images.to_pylist()]
    contents = np.array([content_hash(path) for path in paths], "S32")
    (folder / "review").mkdir()
    ScoreShelf(run.folder, Judge.of_run(run.folder), paths, contents, folder / "review").scores()


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["closed-form", "sgd"])
def test_a_frozen_backbone_runs_once_over_each_image(job, seen, optimizer):
    own, other, folder = job
    config = tiny_config(
        model__pooling="average",
        model__square_root=True,
        images__flip=False,
        optim__name=optimizer,
        freeze="all",
        validation=0.3,
    )
    run = train(own, folder / "pictures", out=folder / "run", config=config)
    assert (len(seen), set(seen.values())) == (IMAGES, {1}), "training"
    use_everything(run, own, other, folder, seen)
    assert (len(seen), set(seen.values())) == (IMAGES + OTHERS, {1}), "all else"


@pytest.mark.slow
def test_a_fine_tuned_backbone_runs_once_over_each_image_after_the_training(job, seen):
    own, other, folder = job
    config = tiny_config(model__pooling="average", optim__epochs=1, validation=0.3)
    run = train(own, folder / "pictures", out=folder / "run", config=config)
    seen.clear()
    use_everything(run, own, other, folder, seen)
    assert (len(seen), set(seen.values())) == (IMAGES + OTHERS, {1})
