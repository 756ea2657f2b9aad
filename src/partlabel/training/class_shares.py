"""How many of the unknown labels of each class are expected to be present."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: the mean share of present counts as so many known labels of each class
_PRIOR_LABELS = 2.0
#: of a 95 % interval of the normal distribution
_Z = 1.96


def expected_share(
    scores: NDArray[Any],
    labels: NDArray[np.int8],
    unseen: NDArray[Any] | None = None,
    sample: NDArray[np.bool_] | None = None,
    mean_share: float | None = None,
) -> NDArray[np.float64]:
    """Say how many of the unknown pairs of each class are expected to be present.

    The share of present among the known labels, with the mean over all classes counted as two labels more. It is only
    right where labels are known at random. If the present and the absent images of a class are each known at random,
    at whatever two rates, then the mean score of all images is ``share m+ + (1 - share) m-`` with the mean scores of
    its known present and absent ones, which gives a second estimate (Forman, 2008). The first is drawn into two
    standard errors around the second. In a class without a known absent label there is no estimate: 0.

    Args:
        scores: (N, C) of all images.
        labels: int8 (N, C).
        unseen: (N, C), scores of the known pairs from a head that has not seen them; None: ``scores``.
        sample: bool (N, C), which known labels speak for all images; None: all. Labels that were asked for, since a
            model was in doubt or thought them present, speak for themselves only.
        mean_share: of present among those, where these are only some of the classes; None: of these.

    Returns:
        float64 (C,) in [0, 1]: of the unknown pairs, those expected to be present.
    """
    unseen = scores if unseen is None else unseen
    present, absent = labels > 0, labels < 0
    known_present, any_absent = present.sum(0), absent.any(0)
    if sample is not None:
        present, absent = present & sample, absent & sample
    n1, n0 = present.sum(0), absent.sum(0)
    mean_share = n1.sum() / max(int((n1 + n0).sum()), 1) if mean_share is None else mean_share
    naive = (n1 + _PRIOR_LABELS * mean_share) / (n1 + n0 + _PRIOR_LABELS)
    share = naive.copy()
    for c in np.flatnonzero((n1 >= 2) & (n0 >= 2)):
        up, down = unseen[present[:, c], c].astype(np.float64), unseen[absent[:, c], c].astype(np.float64)
        gap = np.nanmean(up) - np.nanmean(down)
        if not gap > 0:
            continue
        everyone = np.where(labels[:, c] == 0, scores[:, c], unseen[:, c]).astype(np.float64)
        mixed = (np.nanmean(everyone) - np.nanmean(down)) / gap
        error = np.sqrt(mixed**2 * np.nanvar(up) / len(up) + (1 - mixed) ** 2 * np.nanvar(down) / len(down)) / gap
        share[c] = np.clip(naive[c], mixed - 2 * error, mixed + 2 * error)
    unknown = np.maximum((labels == 0).sum(0), 1)
    found = np.clip((share * len(labels) - known_present) / unknown, 0, 1)
    return np.where(any_absent & (n1 + n0 > 0), found, 0.0)


def expected_interval(
    images: int, known: tuple[NDArray[np.int64], NDArray[np.int64]], sample: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Say between which shares of the unknown pairs of each class those lie that are present.

    The 95 % interval of Wilson (1927) of the share of present among the known labels, without the known pairs. It is
    only right where these are known at random; a class with few known labels has a wide one.

    Args:
        images: N.
        known: (C,) known present and known absent labels.
        sample: (C,) those of them that speak for all images.

    Returns:
        float64 (C, 2) in [0, 1], lower and upper end; 0 and 1 in a class without such a label.
    """
    count = np.add(*sample)
    ends = share_interval(sample[0], count)
    unknown, present = np.maximum(images - np.add(*known), 1)[:, None], known[0][:, None]
    return np.where(count[:, None] > 0, np.clip((ends * images - present) / unknown, 0, 1), [0.0, 1.0])


def share_interval(present: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give the 95 % interval of Wilson (1927) of the share of present among all labels.

    Args:
        present: (C,) known present labels, of a random sample.
        known: (C,) known labels of it.

    Returns:
        float64 (C, 2), lower and upper end; 0 and 1 where none is known.
    """
    n = np.maximum(known, 1)
    share = present / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    reach = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return np.where(known[:, None] > 0, np.stack([middle - reach, middle + reach], axis=1), [0.0, 1.0])
