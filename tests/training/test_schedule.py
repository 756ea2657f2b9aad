import numpy as np
import pytest

from partlabel.training.config import OptimConfig
from partlabel.training.schedule import epoch_batches, learning_rate_factor


@pytest.mark.parametrize(
    ("images", "batch", "sizes"),
    [(5, 4, [5]), (1, 4, [1]), (3, 8, [3]), (8, 4, [4, 4]), (9, 4, [4, 5]), (10, 4, [4, 4, 2]), (3, 1, [1, 2])],
)
def test_every_image_once_and_no_batch_of_one_after_another(images, batch, sizes):
    batches = epoch_batches(images, batch, seed=1, epoch=0)
    assert [len(b) for b in batches] == sizes
    assert sorted(np.concatenate(batches)) == list(range(images))


def test_order_depends_on_seed_and_epoch_only():
    orders = [np.concatenate(epoch_batches(50, 7, seed, epoch)) for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert (orders[0] == orders[3]).all()
    assert (orders[0] != orders[1]).any()
    assert (orders[0] != orders[2]).any()
    assert len(epoch_batches(5, 2, seed=-3, epoch=0)) == 2


def test_paper_schedule_by_hand():
    config = OptimConfig()
    assert [learning_rate_factor(config, e) for e in (0, 9.99, 10, 19)] == pytest.approx([1, 1, 0.1, 0.1])


def test_two_steps_cosine_and_warm_up_by_hand():
    assert learning_rate_factor(OptimConfig(step_after=(2, 4), step_factor=0.5), 4.5) == 0.25
    cosine = OptimConfig(schedule="cosine", epochs=10)
    assert [learning_rate_factor(cosine, e) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    warm = OptimConfig(schedule="constant", warmup=2.0)
    assert [learning_rate_factor(warm, e) for e in (0, 0.5, 2, 7)] == [0, 0.25, 1, 1]
    both = OptimConfig(schedule="cosine", epochs=10, warmup=2.0)
    assert [learning_rate_factor(both, e) for e in (1, 2, 6)] == pytest.approx([0.5, 1, 0.5])
