"""Methods for partial labels as heads on frozen features: losses by name, and those that keep a state of their own.

All heads of a method train side by side: S of them, which differ in step (rate and decay) or in the labels that are
known to them. A method gives the loss of a batch for all S at once, each the mean over the batch and the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from partlabel.method.losses import LOSSES
from partlabel.method.other_losses.selective import selective
from partlabel.training.class_shares import expected_share

EPOCHS, BATCH, MOMENTUM, WARM_UP = 12, 128, 0.9, 4
#: losses that look at all labels of a batch together, so that the heads cannot share one call
OF_BATCHES = ("ll-r", "ll-ct", "csl")


@dataclass
class Data:
    """What a method may know.

    Attributes:
        x: float (N, D), standardised features.
        labels: int8 (S, N, C).
        positives: expected present labels of an image; ROLE is told this number in its paper, too.
        priors: (S, C), share of present labels by a head that learned from known labels alone.
    """

    x: Tensor
    labels: Tensor
    positives: float
    priors: Tensor


class Method:
    """A loss of ``LOSSES``."""

    def __init__(self, data: Data, loss: str = "an", **options: Any) -> None:
        self.data, self.loss, self.options = data, loss, options
        entry = LOSSES[loss]
        known = float((data.labels != 0).float().mean())
        self.scale = 1 / known if loss in ("bce", "partial-bce", "em") else 1.0  # steps as large as with all labels
        self.function = entry.load()
        self.given = {**entry.fixed, **options, "reduction": "sum", "check": False}
        self.by_epoch = entry.by_epoch

    def before_epoch(self, epoch: int, scores: Callable[[], Tensor]) -> None:
        """Look at the scores (S, N, C) of all images; epochs count from 1."""

    def value(self, scores: Tensor, rows: NDArray[np.int64], epoch: int) -> Tensor:
        """The sum over the S heads of their loss of a batch; scores (S, B, C)."""
        return self.named(scores, self.data.labels[:, rows], epoch)

    def named(self, scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
        """The loss by name."""
        more = {"epoch": epoch} if self.by_epoch else {}
        if self.loss in OF_BATCHES:
            found = sum(
                (self.function(own, y, **more, **self.given) for own, y in zip(scores, labels, strict=True)),
                torch.zeros(()),
            )
        else:
            found = self.function(scores.flatten(0, 1), labels.flatten(0, 1), **more, **self.given)
        return self.scale * found / scores.shape[1]


class WithPriors(Method):
    """CSL in full: unknown labels of frequent classes are left out, too (Ben-Baruch et al. 2022)."""

    def __init__(self, data: Data, eta: float = 0.05, likely: float = 5.0) -> None:
        super().__init__(data)
        self.eta, self.likely = eta, likely

    def named(self, scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
        heads = zip(scores, labels, self.data.priors, strict=True)
        more: dict[str, Any] = {"likely": self.likely, "eta": self.eta, "check": False}
        return sum((selective(own, y, prior=p, **more) for own, y, p in heads), torch.zeros(()))


class EntropyAndPseudoLabels(Method):
    """EM with APL (Zhou et al. 2022).

    After the warm-up, each epoch gives a further share of each class's unknown labels, those of the lowest scores, the
    probability of the moment as a soft label with weight beta; after the last one it is ``theta`` of them.
    """

    def __init__(self, data: Data, alpha: float = 0.1, theta: float = 0.9, beta: float = 0.2) -> None:
        super().__init__(data, "em", alpha=alpha)
        self.theta, self.beta = theta, beta
        self.soft = torch.full(data.labels.shape, -1.0)

    def before_epoch(self, epoch: int, scores: Callable[[], Tensor]) -> None:
        if epoch <= WARM_UP:
            return
        share = self.theta * (epoch - WARM_UP) / (EPOCHS - WARM_UP)
        found = scores()
        unknown = self.data.labels == 0
        rank = torch.where(unknown, found, torch.inf).argsort(1).argsort(1)
        chosen = unknown & (rank < share * unknown.sum(1, keepdim=True)) & (self.soft < 0)
        self.soft = torch.where(chosen, torch.sigmoid(found), self.soft)

    def value(self, scores: Tensor, rows: NDArray[np.int64], epoch: int) -> Tensor:
        soft = self.soft[:, rows]
        has = soft >= 0
        weight = torch.where(has, 0.0, 1.0).flatten(0, 1)
        labels = self.data.labels[:, rows].flatten(0, 1)
        found = self.function(scores.flatten(0, 1), labels, weight=weight, **self.given)
        pseudo = F.binary_cross_entropy_with_logits(scores, soft.clamp(min=0), reduction="none") * has
        return self.scale * (found + self.beta * pseudo.sum() / scores.shape[2]) / scores.shape[1]


class OnlineEstimates(Method):
    """ROLE (Cole et al. 2021): labels of all pairs are estimated beside the head, each is the other's target.

    Both have the binary cross-entropy of their known labels, and the squared distance of the mean number of present
    labels in a batch to what is expected, divided by C squared. The estimates have plain gradient steps, in which each
    pair counts as if it stood alone.
    """

    def __init__(self, data: Data, rate: float = 1.0, regular: float = 1.0) -> None:
        super().__init__(data, "bce")
        self.scale, self.rate, self.regular = 1.0, rate, regular
        generator = torch.Generator().manual_seed(0)
        start = 0.4 + 0.2 * torch.rand(data.labels.shape[1:], generator=generator)
        self.estimate = torch.logit(start).expand(data.labels.shape).clone()

    def half(self, scores: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        rows, classes = scores.shape[1:]
        known = F.softplus(-scores * labels)[labels > 0].sum() + F.softplus(scores)[labels < 0].sum()
        distance = (torch.sigmoid(scores).sum((1, 2)) / rows - self.data.positives) / classes
        cross = F.binary_cross_entropy_with_logits(scores, target, reduction="sum")
        return (cross + known) / (rows * classes) + self.regular * distance.square().sum()

    def value(self, scores: Tensor, rows: NDArray[np.int64], epoch: int) -> Tensor:
        labels = self.data.labels[:, rows].float()
        own = self.estimate[:, rows].requires_grad_()
        loss = self.half(own, torch.sigmoid(scores.detach()), labels)
        (gradient,) = torch.autograd.grad(loss, own)
        found = self.half(scores, torch.sigmoid(own.detach()), labels)
        size = scores.shape[1] * scores.shape[2]
        self.estimate[:, rows] = (own - self.rate * size * gradient).detach().clamp(-8, 8)
        return found


class ClassDistribution(Method):
    """CAP (Xie et al. 2023): after the warm-up the highest scores of each class are present, the lowest absent.

    As many as the class's share of present labels among all pairs says; ``present`` and ``absent`` are shares of the
    two numbers. They are drawn anew each epoch.
    """

    def __init__(self, data: Data, present: float = 1.0, absent: float = 1.0, last: int = 0) -> None:
        super().__init__(data, "bce")
        self.present, self.absent, self.last = present, absent, last
        self.known_scale, self.pseudo = self.scale, data.labels

    def before_epoch(self, epoch: int, scores: Callable[[], Tensor]) -> None:
        if epoch <= WARM_UP:
            return
        if epoch > EPOCHS - self.last:  # known labels alone again
            self.pseudo, self.scale = self.data.labels, self.known_scale
            return
        found = self.evidence(scores())
        labels = self.data.labels
        made = []
        for own, y in zip(found, labels, strict=True):
            expected = torch.from_numpy(expected_share(own.numpy(), y.numpy()))
            unknown = y == 0
            count = unknown.sum(0)
            rank = torch.where(unknown, -own, torch.inf).argsort(0).argsort(0)
            up = (self.present * expected * count).round()
            down = (self.absent * (1 - expected) * count).round()
            made.append(torch.where(unknown, torch.where(rank < up, 1, torch.where(rank >= count - down, -1, 0)), y))
        self.pseudo = torch.stack(made).to(torch.int8)
        self.scale = 1 / float((self.pseudo != 0).float().mean())

    def evidence(self, scores: Tensor) -> Tensor:
        """What unknown labels are ranked by."""
        return scores

    def value(self, scores: Tensor, rows: NDArray[np.int64], epoch: int) -> Tensor:
        return self.named(scores, self.pseudo[:, rows], epoch)


class CoOccurrence(ClassDistribution):
    """Like the structured semantic transfer of Chen et al. 2022, as far as averaged features allow.

    The known labels of an image and its nearest images move its scores before CAP ranks them: ``within`` times the
    log-odds that the known labels add by how often they are present together, and ``across`` times the mean label of
    the 20 nearest images.
    """

    def __init__(self, data: Data, within: float = 0.5, across: float = 0.0, absent: float = 1.0) -> None:
        super().__init__(data, absent=absent)
        self.within = within
        moved = []
        near = neighbours(data.x, 20) if across else None
        for y in data.labels:
            own = self.within * (y > 0).float() @ lift(y)
            if near is not None:
                present, known = (y[near] > 0).float().sum(1), (y[near] != 0).float().sum(1)
                base = (y > 0).float().sum(0) / (y != 0).float().sum(0).clamp(min=1)
                own = own + across * (torch.log(present + 4 * base) - torch.log((known + 4) * base)).nan_to_num()
            moved.append(own)
        self.moved = torch.stack(moved)

    def evidence(self, scores: Tensor) -> Tensor:
        return scores + self.moved


class Blending(Method):
    """Like the blending of instances of Pu et al. 2022 (SARB), as far as averaged features allow.

    Where a label is unknown in an image and present in another one of the batch, the class sees a mixture of the two
    images; the mixture of scores, as the head is linear, is to be present.
    """

    def __init__(self, data: Data, share: float = 0.5, weight: float = 1.0) -> None:
        super().__init__(data, "bce")
        self.share, self.weight = share, weight

    def value(self, scores: Tensor, rows: NDArray[np.int64], epoch: int) -> Tensor:
        labels = self.data.labels[:, rows]
        other, theirs = scores.roll(1, 1), labels.roll(1, 1)
        mixed = self.share * scores + (1 - self.share) * other
        blend = F.softplus(-mixed)[(labels == 0) & (theirs > 0)].sum() / (scores.shape[1] * scores.shape[2])
        return super().value(scores, rows, epoch) + self.weight * self.scale * blend


def lift(labels: Tensor) -> Tensor:
    """(C, C): log P(c present | d present) - log P(c present), from pairs that are both known; 0 without any."""
    yes, known = (labels > 0).float(), (labels != 0).float()
    both, seen = yes.T @ yes, yes.T @ known  # [d, c]: d present and c present; d present and c known
    base = yes.sum(0) / known.sum(0).clamp(min=1)
    found = torch.log((both + 2 * base + 1e-6) / ((seen + 2) * base + 1e-6))
    return found.fill_diagonal_(0)


def neighbours(x: Tensor, count: int) -> Tensor:
    """The nearest rows (N, count) of each row by cosine, itself left out."""
    unit = F.normalize(x, dim=1)
    found = []
    for begin in range(0, len(unit), 1000):
        near = unit[begin : begin + 1000] @ unit.T
        near[torch.arange(len(near)), begin + torch.arange(len(near))] = -2
        found.append(near.topk(count, dim=1).indices)
    return torch.cat(found)


def train(
    data: Data, method: Method, rates: NDArray[np.float64], decays: NDArray[np.float64], seed: int
) -> tuple[Tensor, Tensor]:
    """SGD with momentum, its rate falling to 0 by a cosine: weights (S, D, C) and biases (S, C)."""
    count, size, classes = len(rates), data.x.shape[1], data.labels.shape[2]
    weight, bias = torch.zeros(size, count * classes), torch.zeros(count * classes)
    speed = torch.zeros(size, count * classes), torch.zeros(count * classes)
    rate, decay = (torch.from_numpy(v).float().repeat_interleave(classes) for v in (rates, decays))
    random = np.random.default_rng(seed)

    def scored(x: Tensor) -> Tensor:
        return (x @ weight + bias).view(len(x), count, classes).transpose(0, 1)

    steps = EPOCHS * ((len(data.x) + BATCH - 1) // BATCH)
    step = 0
    for epoch in range(1, EPOCHS + 1):
        method.before_epoch(epoch, lambda: scored(data.x).contiguous())
        order = random.permutation(len(data.x))
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            x = data.x[rows]
            scores = scored(x).detach().contiguous().requires_grad_()
            (gradient,) = torch.autograd.grad(method.value(scores, rows, epoch), scores)
            flat = gradient.transpose(0, 1).reshape(len(rows), -1)
            factor = rate * (0.5 + 0.5 * np.cos(np.pi * step / steps))
            speed[0].mul_(MOMENTUM).add_(x.T @ flat).addcmul_(weight, decay)
            speed[1].mul_(MOMENTUM).add_(flat.sum(0))
            weight.addcmul_(speed[0], factor, value=-1)
            bias.addcmul_(speed[1], factor, value=-1)
            step += 1
    return weight.view(size, count, classes).transpose(0, 1), bias.view(count, classes)
