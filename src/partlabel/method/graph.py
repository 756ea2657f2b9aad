"""Label graph network: a fully connected graph over the classes that lets the scores of one image correct each other.

Section 3.2 and algorithm 2 of Durand, Mehrasa, Mori, *Learning a Deep ConvNet for Multi-label Classification with
Partial Labels* (CVPR 2019).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: up to this many classes the hidden size defaults to C, as in the paper (7 C^2 weights, states of C^2 per image)
MAX_PAPER_CLASSES = 600
#: hidden size above that
LARGE_HIDDEN = 64


class LabelGraph(nn.Module):
    """Corrects the scores of one image by a gated graph network over all classes (algorithm 2 of the paper).

    With C classes as nodes, every pair of them joined, ``h_v^0 = x_v e_v`` and T steps::

        m_v^t     = 1/(C-1) * sum over u != v of ReLU(W h_u^t + b)      (0 where C = 1)
        h_v^{t+1} = GRU(h_v^t, m_v^t)
        output_v  = x_v + <r_v, h_v^T>

    In the paper ``d = C`` and ``e_v = r_v`` is the one-hot row of v, so that the output is component v of
    ``h_v^0 + h_v^T``. The generalisation for many classes gives each class a learned row ``e_v`` (``embedding``), along
    which its score is written into a state of ``d < C`` numbers, and a learned row ``r_v`` (``readout``), along which
    it is read; both equal to the identity give back the paper's graph. Memory is linear in C for a fixed d.

    The messages are computed as (sum - own)/(C-1), never pair by pair. The first step uses that ``h^0`` is a scaled row
    per node (no product with a state), the last one, where ``d = C``, computes component v of node v only. Results
    equal those of the plain algorithm up to rounding.

    At the start the GRU's and the message layer's weights are PyTorch's default, ``U(-1/sqrt(d), 1/sqrt(d))``, and all
    biases are 0; ``e_v`` is a random direction of length 1 and ``r_v = e_v``. The gates are then about one half, so an
    untrained graph returns about ``(1 + 2^-T)`` times the scores of a trained ConvNet, 0 stays exactly 0, and gradients
    reach the ConvNet with a factor near 1.

    ``gru`` holds the parameters under the names and in the order of ``torch.nn.GRUCell``. The graph computes in the
    dtype of its parameters, whatever the autocast, as the states feed back into themselves. Gradients of first order
    only.

    Args:
        num_classes: C, at least 1.
        hidden: d, at most C. ``d = C`` is the paper's graph. None: C up to 600 classes, else 64.
        steps: T, at least 1; the paper uses 3.

    Raises:
        ValueError: num_classes, hidden or steps out of range.
    """

    def __init__(self, num_classes: int, hidden: int | None = None, steps: int = 3) -> None:
        super().__init__()
        if hidden is None:
            hidden = num_classes if num_classes <= MAX_PAPER_CLASSES else LARGE_HIDDEN
        if num_classes < 1 or steps < 1:
            raise ValueError(f"num_classes and steps are at least 1, not {num_classes} and {steps}")
        if not 1 <= hidden <= num_classes:
            raise ValueError(f"hidden is from 1 to num_classes = {num_classes}, not {hidden}")
        self.num_classes, self.hidden, self.steps = num_classes, hidden, steps
        self.message = nn.Linear(hidden, hidden)
        self.gru = nn.GRUCell(hidden, hidden)
        learned = hidden < num_classes
        self.embedding = nn.Parameter(torch.empty(num_classes, hidden)) if learned else None
        self.readout = nn.Parameter(torch.empty(num_classes, hidden)) if learned else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights; see the class for the choice."""
        bound = 1 / math.sqrt(self.hidden)
        for parameter in (self.message.weight, self.gru.weight_ih, self.gru.weight_hh):
            nn.init.uniform_(parameter, -bound, bound)
        for parameter in (self.message.bias, self.gru.bias_ih, self.gru.bias_hh):
            nn.init.zeros_(parameter)
        if self.embedding is not None and self.readout is not None:
            with torch.no_grad():
                self.embedding.copy_(F.normalize(torch.randn_like(self.embedding), dim=1))
                self.readout.copy_(self.embedding)

    def extra_repr(self) -> str:
        """Sizes, for the printed module."""
        return f"num_classes={self.num_classes}, hidden={self.hidden}, steps={self.steps}"

    def forward(self, scores: Tensor) -> Tensor:
        """Return the corrected scores.

        Args:
            scores: float (N, C), before the sigmoid.

        Returns:
            (N, C) in the dtype of the parameters, before the sigmoid.

        Raises:
            ValueError: scores are not (N, C).
        """
        if scores.ndim != 2 or scores.shape[1] != self.num_classes:
            raise ValueError(f"scores are (N, {self.num_classes}), not {tuple(scores.shape)}")
        with torch.autocast(scores.device.type, enabled=False):
            return self._forward(scores.to(self.message.weight.dtype))

    def _forward(self, scores: Tensor) -> Tensor:
        x = scores.t().contiguous()  # (C, N): nodes first, so that "all nodes of one image" is a stride, not a copy
        h = self._initial(x)
        for step in range(self.steps):
            state = None if step == 0 else h
            f = torch.relu(self._product(x, state, self.message.weight, self.message.bias))
            total = f.sum(0)
            if self.readout is None and step == self.steps - 1:
                return scores + self._own_component(f, total, h).t()
            h = self._update(x, state, f, total, h)
        assert self.readout is not None
        return scores + (h * self.readout.unsqueeze(1)).sum(2).t()

    @property
    def _scale(self) -> float:
        """1/(C-1), and 0 for a graph without edges."""
        return 1 / (self.num_classes - 1) if self.num_classes > 1 else 0.0

    def _initial(self, x: Tensor) -> Tensor:
        """h^0: the score of node v times its row e_v, (C, N, d), or x itself where e_v is one-hot (see ``_dense``)."""
        return x if self.embedding is None else x.unsqueeze(2) * self.embedding.unsqueeze(1)

    def _product(self, x: Tensor, h: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
        """``weight @ h_v + bias`` of every node; without h that of h^0, a scaled column of the weight."""
        if h is not None:
            return F.linear(h, weight, bias)
        rows = weight.t() if self.embedding is None else F.linear(self.embedding, weight)
        return _ScaledRows.apply(x, rows, bias)

    def _update(self, x: Tensor, state: Tensor | None, f: Tensor, total: Tensor, h: Tensor) -> Tensor:
        """GRU(h, m) with m = (total - f) * scale; ``state`` is None where h is h^0."""
        gru = self.gru
        hidden = [
            self._product(x, state, w, b) for w, b in zip(gru.weight_hh.chunk(3), gru.bias_hh.chunk(3), strict=True)
        ]
        shared = F.linear(total * self._scale, gru.weight_ih, gru.bias_ih)
        return _Gates.apply(f, shared, gru.weight_ih, self._scale, *hidden, h)

    def _own_component(self, f: Tensor, total: Tensor, h: Tensor) -> Tensor:
        """(C, N): component v of GRU(h_v, m_v), the only one that the output reads where d = C."""
        c, scale, h = self.num_classes, self._scale, _dense(h)
        weight_ih, weight_hh = (w.view(3, c, c).permute(1, 2, 0) for w in (self.gru.weight_ih, self.gru.weight_hh))
        bias_ih, bias_hh = (b.view(3, c).t().unsqueeze(1) for b in (self.gru.bias_ih, self.gru.bias_hh))
        shared = F.linear(total * scale, self.gru.weight_ih).view(-1, 3, c).permute(2, 0, 1)
        inputs = (shared + bias_ih - scale * torch.bmm(f, weight_ih)).unbind(2)
        hidden = (torch.bmm(h, weight_hh) + bias_hh).unbind(2)
        r = torch.sigmoid(inputs[0] + hidden[0])
        z = torch.sigmoid(inputs[1] + hidden[1])
        n = torch.tanh(inputs[2] + r * hidden[2])
        return torch.lerp(n, torch.diagonal(h, dim1=0, dim2=2).t(), z)


def _dense(h: Tensor) -> Tensor:
    """States (C, N, d); a diagonal h^0 travels as its (C, N) scores, so that no (C, N, C) tensor of zeros is kept."""
    return h if h.ndim == 3 else torch.diag_embed(h.t()).transpose(0, 1).contiguous()


class _ScaledRows(torch.autograd.Function):
    """``x[v, i] * rows[v] + bias``: (C, N), (C, k), (k,) -> (C, N, k); its backward makes no (C, N, k) tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, rows)
        return torch.addcmul(bias, x.unsqueeze(2), rows.unsqueeze(1))

    @staticmethod
    @once_differentiable
    # pyrefly: ignore[bad-override]  (the decorator hides the name of ctx)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        (grad,) = grad_outputs
        x, rows = ctx.saved_tensors
        grad_x = torch.bmm(grad, rows.unsqueeze(2)).squeeze(2)
        grad_rows = torch.bmm(x.unsqueeze(1), grad).squeeze(1)
        return grad_x, grad_rows, grad.sum((0, 1))


class _Gates(torch.autograd.Function):
    """The GRU update of all nodes from its products, keeping only what the backward needs.

    ``f`` (C, N, d): f_M of the states; ``shared`` (N, 3d): the input product of the scaled sum of f, with bias;
    ``weight`` (3d, d): input weights; ``hidden_*`` (C, N, d): state products with bias; ``h``: the states, in a form
    that ``_dense`` takes.
    The input product of node v is ``shared - scale * weight @ f_v``.
    """

    @staticmethod
    def forward(
        ctx: Any, f: Tensor, shared: Tensor, weight: Tensor, scale: float, hidden_r: Tensor, hidden_z: Tensor,
        hidden_n: Tensor, h: Tensor,
    ) -> Tensor:  # fmt: skip
        flat = f.flatten(0, 1)

        def gate(k: int, hidden: Tensor) -> Tensor:
            value = hidden + shared.chunk(3, 1)[k]
            value.flatten(0, 1).addmm_(flat, weight.chunk(3)[k].t(), alpha=-scale)
            return value

        r = gate(0, hidden_r).sigmoid_()
        z = gate(1, hidden_z).sigmoid_()
        n = gate(2, r * hidden_n).tanh_()
        ctx.scale = scale
        ctx.save_for_backward(f, weight, r, z, n, hidden_n, h)
        return torch.lerp(n, _dense(h), z)

    @staticmethod
    @once_differentiable
    # pyrefly: ignore[bad-override]  (the decorator hides the name of ctx)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        f, weight, r, z, n, hidden_n, h = ctx.saved_tensors
        grad_z = torch.ops.aten.sigmoid_backward((_dense(h) - n).mul_(grad), z)
        grad_h = grad * z
        grad_n = torch.ops.aten.tanh_backward(grad - grad_h, n)
        grad_r = torch.ops.aten.sigmoid_backward(grad_n * hidden_n, r)
        gates = (grad_r, grad_z, grad_n)
        flat = f.flatten(0, 1)
        grad_f = torch.zeros_like(flat)
        for gate, w in zip(gates, weight.chunk(3), strict=True):
            grad_f.addmm_(gate.flatten(0, 1), w, alpha=-ctx.scale)
        grad_shared = torch.cat([gate.sum(0) for gate in gates], 1)
        grad_weight = torch.cat([gate.flatten(0, 1).t() @ flat for gate in gates]).mul_(-ctx.scale)
        if h.ndim == 2:
            grad_h = torch.diagonal(grad_h, dim1=0, dim2=2).t()
        return grad_f.view_as(f), grad_shared, grad_weight, None, grad_r, grad_z, grad_n.mul_(r), grad_h
