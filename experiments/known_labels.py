"""Which labels of the training part are known in a job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.jobs import ASKED, Labels
from partlabel import LabelTable, simulate
from partlabel.tasks.next_labels import Mix, choose

#: how many times more often a present pair is verified than an absent one; about half of the known labels of Open
#: Images are present, against 4 % of all pairs here
PRESENT_FAVOUR = 27.0


def draw(chosen: Labels, truth: LabelTable, seed: int) -> LabelTable:
    """The known labels of a strategy, all but those of later rounds of ``asked``.

    ``uneven-images`` and ``uneven-classes``: each image (class) has a proportion of its own, drawn from 1 % to 100 %
    with mean 10 %. ``verified``: see :func:`verified`; a table that knows no more than that is taken as it is.
    """
    if chosen.kind == "all":
        return truth
    if chosen.kind == "noisy-plus":
        return simulate.noisy_plus(truth, seed)
    if chosen.kind == "asked":
        assert chosen.share == ASKED[0]
        return simulate.partial(truth, chosen.share, seed, per_image="bernoulli")
    if chosen.kind in ("partial", "dense", "noisy"):
        return getattr(simulate, chosen.kind)(truth, chosen.share, seed)
    random = np.random.Generator(np.random.PCG64([seed, 6]))
    image = np.repeat(np.arange(truth.num_images), np.diff(truth.indptr))
    if chosen.kind == "verified":
        if truth.num_known <= round(chosen.share * truth.num_images * truth.num_classes):
            return truth
        return truth.hide(verified(truth, image, chosen.share, random), "verified", share=chosen.share, seed=seed)
    per, owner = {
        "uneven-images": (truth.num_images, image),
        "uneven-classes": (truth.num_classes, truth.indices),
    }[chosen.kind]
    keep = random.random(truth.num_known) < uneven(per, random)[owner]
    return truth.hide(keep, chosen.kind, seed=seed)


def uneven(count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Proportions from 0.01 to 1 with the density of p^(-3/2), whose mean is 0.1: most are small, a few near 1.

    They are the quantiles in random order, so that the mean is the same for every seed.
    """
    u = (np.arange(count) + 0.5) / count
    return random.permutation((10 - 9 * u) ** -2.0)


def verified(
    truth: LabelTable, image: NDArray[np.int64], share: float, random: np.random.Generator
) -> NDArray[np.bool_]:
    """A mask of known labels as a large public set has them: few, uneven, and half of them present.

    Of all pairs, the share is drawn without replacement with weights a_i b_c f: a_i of the image and b_c of the class
    are log-normal with deviation 1, and f is ``PRESENT_FAVOUR`` for present pairs, as persons are mostly asked about
    what a model or a searcher has suggested.
    """
    a, b = (random.lognormal(sigma=1.0, size=size) for size in (truth.num_images, truth.num_classes))
    weight = a[image] * b[truth.indices] * np.where(truth.values > 0, PRESENT_FAVOUR, 1.0)
    count = round(share * truth.num_images * truth.num_classes)
    keys = random.exponential(size=truth.num_known) / weight  # the smallest are a draw without replacement
    keep = np.zeros(truth.num_known, bool)
    keep[np.argpartition(keys, count)[:count]] = True
    return keep


def ask(known: LabelTable, scores: NDArray[np.float32], truth: LabelTable, share: float, seed: int) -> LabelTable:
    """The known labels and the true answers to what ``partlabel next`` asks, up to a share of all pairs."""
    size = truth.num_images * truth.num_classes
    found = choose(scores, known, round(share * size) - known.num_known, Mix(), seed=seed, evenly=True)
    image, cls = found.image[found.open], found.cls[found.open]
    return known.with_labels(image, cls, truth.dense()[image, cls], origin="asked")
