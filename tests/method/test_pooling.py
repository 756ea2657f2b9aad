from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.method.pooling import WeldonPool2d
from tests.reference.derivative import complex_step
from tests.reference.pooling import weldon


def test_sum_of_both_means_is_not_halved() -> None:
    maps = torch.arange(20.0).view(1, 1, 4, 5)  # 10 % of 20 regions: 2 each
    assert WeldonPool2d()(maps).tolist() == [[18.5 + 0.5]]
    assert WeldonPool2d(k_max=0.25, k_min=0.5)(maps).tolist() == [[17.0 + 4.5]]


def test_halved_on_request() -> None:
    maps = torch.arange(20.0).view(1, 1, 4, 5)
    assert WeldonPool2d(halved=True)(maps).tolist() == [[(18.5 + 0.5) / 2]]


def test_at_least_one_region_at_each_end() -> None:
    assert WeldonPool2d()(torch.tensor([[[[3.0, -1.0]]]])).tolist() == [[2.0]]
    assert WeldonPool2d()(torch.tensor([[[[3.0]]]])).tolist() == [[6.0]]


def test_gradient_goes_to_the_selected_regions() -> None:
    maps = torch.arange(20.0).view(1, 1, 4, 5).requires_grad_()
    WeldonPool2d()(maps).sum().backward()
    assert maps.grad.flatten().tolist() == [0.5, 0.5] + [0.0] * 16 + [0.5, 0.5]


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5),
    st.floats(0.01, 1), st.floats(0.01, 1),
)  # fmt: skip
def test_forward_and_gradient_of_the_loops(
    seed: int, n: int, c: int, h: int, w: int, k_max: float, k_min: float
) -> None:
    rng = np.random.default_rng(seed)
    maps, weight = rng.normal(size=(n, c, h, w)), rng.normal(size=(n, c))
    tensor = torch.from_numpy(maps).requires_grad_()
    pooled = WeldonPool2d(k_max, k_min)(tensor)
    (pooled * torch.from_numpy(weight)).sum().backward()
    np.testing.assert_allclose(pooled.detach(), weldon(maps, k_max, k_min), rtol=1e-9, atol=1e-12)
    expected = complex_step(lambda maps: (weldon(maps, k_max, k_min) * weight).sum(), {"maps": maps}, "maps")
    np.testing.assert_allclose(tensor.grad, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("k_max", "k_min"), [(0.0, 0.1), (0.1, 1.5), (float("nan"), 0.1)])
def test_proportions_out_of_range(k_max: float, k_min: float) -> None:
    with pytest.raises(ValueError, match="proportion of the regions"):
        WeldonPool2d(k_max, k_min)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 0, 4)])
def test_maps_without_regions(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one region"):
        WeldonPool2d()(torch.zeros(shape))
