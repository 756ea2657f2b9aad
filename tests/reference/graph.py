"""Algorithm 2 as loops over images, nodes and neighbours; ``e`` and ``r`` are the identity in the paper."""

from __future__ import annotations

import numpy as np


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def f_M(h: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    a = W @ h + b
    return np.where(np.real(a) > 0, a, 0)


def gru(h: np.ndarray, m: np.ndarray, W_i: np.ndarray, W_h: np.ndarray, b_i: np.ndarray, b_h: np.ndarray) -> np.ndarray:
    """GRU cell by the formulas in the documentation of torch.nn.GRUCell."""
    d = len(h)
    i, s = W_i @ m + b_i, W_h @ h + b_h
    r = sigmoid(i[:d] + s[:d])
    z = sigmoid(i[d : 2 * d] + s[d : 2 * d])
    n = np.tanh(i[2 * d :] + r * s[2 * d :])
    return (1 - z) * n + z * h


def label_graph(
    x: np.ndarray, W: np.ndarray, b: np.ndarray, W_i: np.ndarray, W_h: np.ndarray, b_i: np.ndarray, b_h: np.ndarray,
    e: np.ndarray, r: np.ndarray, T: int,
) -> np.ndarray:  # fmt: skip
    N, C = x.shape
    output = np.zeros((N, C), dtype=np.result_type(x, W, b, W_i, W_h, b_i, b_h, e, r))
    for image in range(N):
        h = [x[image, v] * e[v] for v in range(C)]
        for _ in range(T):
            messages = []
            for v in range(C):
                m = np.zeros_like(h[v])
                for u in range(C):
                    if u != v:
                        m = m + f_M(h[u], W, b) / (C - 1)
                messages.append(m)
            h = [gru(h[v], messages[v], W_i, W_h, b_i, b_h) for v in range(C)]
        for v in range(C):
            output[image, v] = x[image, v] + r[v] @ h[v]
    return output
