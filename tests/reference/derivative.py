"""Exact derivatives of the NumPy references, by the complex step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

STEP = 1e-30


def complex_step(function: Callable[..., complex], arrays: Mapping[str, np.ndarray], wanted: str) -> np.ndarray:
    """d function / d ``arrays[wanted]``: Im f(a + ih) / h, which has no cancellation and so the precision of float64.

    The function has to be analytic around its arguments and to branch on real parts only.
    """
    gradient = np.zeros(arrays[wanted].shape)
    for place in np.ndindex(gradient.shape):
        moved = arrays[wanted].astype(complex)
        moved[place] += 1j * STEP
        gradient[place] = np.imag(function(**{**arrays, wanted: moved})) / STEP
    return gradient
