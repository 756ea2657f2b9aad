"""Faults of the loss, the pooling, the graph, the curriculum and the published rivals."""

from __future__ import annotations

from tests.faults.fault import Fault

LOSS = "method/test_loss.py"
GRAPH = "method/test_graph.py"
CURRICULUM = "method/test_curriculum.py method/test_class_adaptive.py"
UNCERTAINTY = "method/test_uncertainty.py"
RIVALS = "method/other_losses"

FAULTS = [
    Fault("method/loss.py", "alpha of the paper's print", "return alpha, 1 - alpha", "return -4.45, 5.45", LOSS),
    Fault("method/loss.py", "g of the label count, not of the share", "(known / classes).pow_", "known.pow_", LOSS),
    Fault(
        "method/loss.py",
        "few labels known: gradient without the sign",
        "return loss, torch.sigmoid(wrong).mul_(weight).mul_(minus_y), index",
        "return loss, torch.sigmoid(wrong).mul_(weight), index",
        LOSS,
    ),
    Fault(
        "method/loss.py",
        "few labels known: rows counted by the wrong divisor",
        'row = torch.div(index, classes, rounding_mode="floor")',
        'row = torch.div(index, rows, rounding_mode="floor")',
        LOSS,
    ),
    Fault("method/loss.py", "the mean divides by 1", "divisor = max(rows, 1) if", "divisor = 1 if", LOSS),
    Fault(
        "method/loss.py",
        "a NaN score of an unknown label reaches the loss",
        "wrong = _zero_unknown(scores, labels).mul_(minus_y)",
        "wrong = scores * minus_y",
        LOSS,
    ),
    Fault("method/checks.py", "a label 2 is let through", "and low >= -1 and high <= 1)", "and low >= -1)", LOSS),
    Fault(
        "method/loss.py",
        "the weight of a label leaves its row's share",
        "weights = _weights(known.sum(1).clamp(min=1).to(scores.dtype)",
        "weights = _weights((known & (weight > 0)).sum(1).clamp(min=1).to(scores.dtype)",
        LOSS,
    ),
    Fault(
        "method/pooling.py",
        "the sum is halved",
        "highest.mean(2) + lowest.mean(2)",
        "(highest.mean(2) + lowest.mean(2)) / 2",
        "method/test_pooling.py",
    ),
    Fault(
        "method/pooling.py",
        "no region at least",
        "max(1, round(self.k_min * count))",
        "round(self.k_min * count)",
        "method/test_pooling.py",
    ),
    Fault(
        "method/graph.py",
        "messages over C, not C - 1",
        "return 1 / (self.num_classes - 1) if",
        "return 1 / self.num_classes if",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "the output leaves h^0 out",
        "return scores + self._own_component(f, total, h).t()",
        "return self._own_component(f, total, h).t()",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "one step too few",
        "for step in range(self.steps):",
        "for step in range(max(1, self.steps - 1)):",
        GRAPH,
    ),
    Fault(
        "method/graph.py",
        "the gate z is turned round",
        "return torch.lerp(n, torch.diagonal(h, dim1=0, dim2=2).t(), z)",
        "return torch.lerp(n, torch.diagonal(h, dim1=0, dim2=2).t(), 1 - z)",
        GRAPH,
    ),
    Fault("method/graph.py", "backward: no gradient to the state", "grad_h = grad * z\n", "grad_h = grad * 0\n", GRAPH),
    Fault(
        "method/curriculum.py",
        "[a] absent at x = -theta too",
        "return x >= theta, x < -theta",
        "return x >= theta, x <= -theta",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[b] shares are rounded up",
        "stable=True).indices[: _part(theta, len(values), ROUND_FLOOR)]",
        "stable=True).indices[: _part(theta, len(values), ROUND_HALF_UP)]",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[c] makes absent labels",
        "return _filled(labels, unknown, present, torch.zeros_like(present))",
        "return _filled(labels, unknown, present, ~present)",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "[e] leaves out U = theta",
        "easy = unknown & (u <= _at_least_0(theta))",
        "easy = unknown & (u < _at_least_0(theta))",
        CURRICULUM,
    ),
    Fault("method/curriculum.py", "known labels change", "easy = unknown & (u <=", "easy = (u <=", CURRICULUM),
    Fault(
        "method/curriculum.py",
        "the prior is drawn to 1/2",
        "strength * common) /",
        "strength * 0.5) /",
        CURRICULUM,
    ),
    Fault(
        "method/curriculum.py",
        "G with the printed sign",
        "return -v.double().sum() *",
        "return v.double().sum() *",
        CURRICULUM,
    ),
    Fault(
        "method/rounds.py",
        "the label proportion forgets absent ones",
        "return (self.known + self.present + self.absent).double() / self.images",
        "return (self.known + self.present).double() / self.images",
        "method/test_rounds.py",
    ),
    Fault(
        "method/uncertainty.py",
        "p / (1 - p) becomes p",
        "rate / (1 - rate) * _product(weight",
        "rate * _product(weight",
        UNCERTAINTY,
    ),
    Fault(
        "method/uncertainty.py",
        "kept values are not scaled",
        "values = (x / masks.keep).reshape",
        "values = x.reshape",
        UNCERTAINTY,
    ),
    Fault(
        "method/uncertainty.py",
        "all images have the masks of the first",
        "masks = _Masks(rate, samples, seed, numbers[some])",
        "masks = _Masks(rate, samples, seed, numbers[:1].expand(len(x[some])))",
        UNCERTAINTY,
    ),
    Fault(
        "method/other_losses/assume_negative.py",
        "WAN: known absent labels get the weak weight",
        "torch.where(unknown, losses / max",
        "torch.where(~present, losses / max",
        RIVALS,
    ),
    Fault(
        "method/other_losses/asymmetric.py",
        "ASL without its margin",
        "(torch.sigmoid(x) - margin).clamp(min=0)",
        "torch.sigmoid(x)",
        RIVALS,
    ),
    Fault(
        "method/other_losses/hill.py",
        "Hill: the margin is added",
        "if_present(x - margin)",
        "if_present(x + margin)",
        RIVALS,
    ),
    Fault(
        "method/other_losses/large_loss.py",
        "LL-R: known labels are left out too",
        "candidates = torch.where(unknown, losses.detach(), -1).flatten()",
        "candidates = losses.detach().flatten()",
        RIVALS,
    ),
]
