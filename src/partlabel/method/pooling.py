"""WELDON pooling: the score of a class from its highest and its lowest regions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeldonPool2d(nn.Module):
    """Mean of the k+ highest plus mean of the k- lowest regions of each score map.

    ``s_c = 1/k+ * sum of the k+ highest + 1/k- * sum of the k- lowest`` over the H*W regions of map c, from Durand,
    Thome, Cord, *WELDON* (CVPR 2016). The low regions are evidence against the class. Durand, Mehrasa, Mori (CVPR 2019)
    use ``k+ = k- = 0.1`` (10 % of the regions).

    By default the sum is **not halved**, as in the formula and in the author's Torch7 code
    (durandtibo/spatial-pooling.torch, ``WeldonPooling.lua``: the two means are added). The author's later PyTorch code
    divides it by 2 (durandtibo/weldon.resnet.pytorch, ``weldon.py``, and durandtibo/wildcat.pytorch, ``pooling.py``:
    ``.div_(2)``); the 2019 paper, whose code was not released, does not say which it used. A 1x1 convolution in front
    can learn either scale, but at equal weights scores and their gradient are twice those of the halved form: weights
    trained with one form need their classifier, bias included, scaled for the other. ``halved=True`` divides by 2.

    The number of regions is ``max(1, round(k * H * W))``, fixed by the size of the map, so the layer exports with a
    fixed image size. Where ties stand at the edge of the selection, it is not defined which of the equal regions gets
    the gradient.

    Args:
        k_max: proportion of the regions counted as highest, 0 < k_max <= 1.
        k_min: proportion of the regions counted as lowest, 0 < k_min <= 1. The two may overlap, as on a 1x1 map.
        halved: divide the sum by 2.

    Raises:
        ValueError: a proportion out of range.
    """

    def __init__(self, k_max: float = 0.1, k_min: float = 0.1, *, halved: bool = False) -> None:
        super().__init__()
        for name, value in (("k_max", k_max), ("k_min", k_min)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} is a proportion of the regions, above 0 and at most 1, not {value}")
        self.k_max, self.k_min, self.halved = k_max, k_min, halved

    def extra_repr(self) -> str:
        """Proportions, for the printed module."""
        return f"k_max={self.k_max}, k_min={self.k_min}, halved={self.halved}"

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled scores.

        Args:
            maps: float (N, C, H, W), one score map per class.

        Returns:
            (N, C), same dtype.

        Raises:
            ValueError: maps are not (N, C, H, W), or have no region.
        """
        if maps.ndim != 4 or maps.shape[2] * maps.shape[3] == 0:
            raise ValueError(f"maps are (N, C, H, W) with at least one region, not {tuple(maps.shape)}")
        regions = maps.flatten(2)
        count = regions.shape[2]
        highest = torch.topk(regions, max(1, round(self.k_max * count)), dim=2, sorted=False).values
        lowest = torch.topk(regions, max(1, round(self.k_min * count)), dim=2, largest=False, sorted=False).values
        pooled = highest.mean(2) + lowest.mean(2)
        return pooled / 2 if self.halved else pooled
