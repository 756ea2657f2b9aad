"""Bayesian uncertainty by MC dropout: how much the scores change when the dropout stays on.

Strategy [e] of section 3.3 of Durand, Mehrasa, Mori, *Learning a Deep ConvNet for Multi-label Classification with
Partial Labels* (CVPR 2019), after Gal, Ghahramani, *Dropout as a Bayesian Approximation* (ICML 2016). Predictive
entropy and mutual information as in Houlsby et al., *Bayesian Active Learning* (2011), for each class on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from partlabel.method.graph import LabelGraph

#: the probability of the dropout is rounded to a multiple of 2^-_BITS
_BITS = 16
#: numbers of one piece of work: small enough for a processor's cache; elsewhere, few and large pieces
_PIECE = {"cpu": 2**19}
_PIECE_ELSEWHERE = 2**27
#: random numbers drawn at once, for each bit
_DRAWN = {"cpu": 2**12}
_DRAWN_ELSEWHERE = 2**21
#: bits of one int32
_HALF = 32
#: SplitMix64, as signed numbers
_GAMMA, _FIRST, _SECOND = (n - 2**64 for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Uncertainty(NamedTuple):
    """What the passes of MC dropout say about each image and class; all (N, C).

    Attributes:
        mean: of the scores.
        variance: of the scores, at least 0; the measure U of the paper.
        probability_variance: variance of the probabilities ``sigmoid(score)``, at least 0.
        entropy: predictive entropy in nats, that of the mean probability, in [0, log 2].
        mutual_information: between label and weights in nats: the entropy less the mean of the entropies of the passes,
            in [0, log 2].
    """

    mean: Tensor
    variance: Tensor
    probability_variance: Tensor
    entropy: Tensor
    mutual_information: Tensor

    @property
    def deviation(self) -> Tensor:
        """Standard deviation of the scores."""
        return self.variance.sqrt()


class DropoutHead(Protocol):
    """What :func:`mc_dropout` needs of a head: ``graph(pool(classifier(dropout(before_dropout(features)))))``.

    ``classifier`` is a 1x1 convolution. Without ``pool``, ``before_dropout`` gives maps of one region.
    """

    @property
    def dropout(self) -> nn.Module: ...  # noqa: D102

    @property
    def classifier(self) -> nn.Conv2d: ...  # noqa: D102

    @property
    def pool(self) -> nn.Module | None: ...  # noqa: D102

    @property
    def graph(self) -> LabelGraph | None: ...  # noqa: D102

    def before_dropout(self, features: Tensor) -> Tensor: ...  # noqa: D102


@torch.no_grad()
def mc_dropout(
    head: DropoutHead, features: Tensor, index: Tensor | None = None, *, samples: int = 50, seed: int = 0
) -> Uncertainty:
    """Uncertainty of a head with its dropout on, and nothing else in training mode.

    The passes of several images run as one batch, from the dropout on. The mask of a pass depends on the seed, the
    number of the image and the number of the pass only, and each image is a product of its own: on the CPU of one
    machine, the same features give the same result to the bit in any batch, order or process; on a GPU, up to rounding.

    Where only the linear classifier follows the dropout (no ``pool``, no ``graph``), mean and variance are exact:
    ``w x + b`` and ``p/(1-p) * sum_d (w_d x_d)^2``. All else is estimated from the passes, variances without bias
    (divided by ``samples - 1``). The estimates take the probability of the dropout rounded to a multiple of 2^-16.
    Computed in at least float32, whatever the autocast.

    Args:
        head: such as ``Model.head``; neither its mode nor anything in it changes.
        features: float (N, D, h, w), its input.
        index: int64 (N,), the numbers of the images; None counts from 0.
        samples: T, number of passes, at least 2.
        seed: of the masks.

    Returns:
        (N, C) each, in float32, or float64 for a head in float64.

    Raises:
        ValueError: no dropout in the head or one of 1, samples below 2, or not one number for each image.
    """
    rate = getattr(head.dropout, "p", 0.0) if isinstance(head.dropout, nn.Dropout) else 0.0
    if not rate:
        raise ValueError("no dropout, uncertainty would be 0")
    if rate == 1:
        raise ValueError("a dropout of 1 keeps nothing")
    if samples < 2:
        raise ValueError(f"samples is at least 2, not {samples}")
    numbers = torch.arange(len(features)) if index is None else index
    if numbers.shape != features.shape[:1]:
        raise ValueError(f"index holds one number for each of {len(features)} images, not {tuple(numbers.shape)}")
    dtype = torch.promote_types(head.classifier.weight.dtype, torch.float32)
    weight = head.classifier.weight.flatten(1).to(dtype)
    bias = torch.zeros_like(weight[:, 0]) if head.classifier.bias is None else head.classifier.bias.to(dtype)
    result = weight.new_empty(len(Uncertainty._fields), len(features), len(weight))
    with torch.autocast(features.device.type, enabled=False):
        x = head.before_dropout(features).to(dtype)
        at_once = max(1, _piece(x.device) // max(samples * x[:1].numel(), 1))
        for low in range(0, len(x), at_once):
            some = slice(low, low + at_once)
            masks = _Masks(rate, samples, seed, numbers[some])
            result[:, some] = _measures(_scores(head, x[some], weight, bias, masks))
            if head.pool is None and head.graph is None:
                own = x[some].flatten(1).unsqueeze(2)
                result[0, some] = _product(weight, own, bias).squeeze(2)
                result[1, some] = rate / (1 - rate) * _product(weight.square(), own.square()).squeeze(2)
    return Uncertainty(*result)


def summarise(scores: Tensor) -> Uncertainty:
    """The measures over passes, or over the models of an ensemble.

    Args:
        scores: float (T, ...), T at least 2, before the sigmoid.

    Returns:
        (...) each, estimated over the first dimension.
    """
    present, absent = torch.sigmoid(scores), torch.sigmoid(-scores)
    entropy = torch.special.entr(present.mean(0)) + torch.special.entr(absent.mean(0))
    size = scores.abs()  # log(1 + e^-|x|) + |x| sigmoid(-|x|) is the entropy of a pass, without cancellation
    of_passes = torch.log1p(torch.exp(-size)).addcmul_(size, torch.minimum(present, absent))
    information = (entropy - of_passes.mean(0)).clamp_min_(0)
    return Uncertainty(scores.mean(0), scores.var(0), present.var(0), entropy, information)


def _measures(scores: Tensor) -> Tensor:
    """(5, N, C) measures of (N, T, C) scores; on a CPU of each image by itself, as the end of an array rounds apart."""
    if scores.device.type == "cpu":
        return torch.stack([torch.stack(summarise(own)) for own in scores], 1)
    return torch.stack(summarise(scores.transpose(0, 1)))


def _scores(head: DropoutHead, x: Tensor, weight: Tensor, bias: Tensor, masks: _Masks) -> Tensor:
    """(N, T, C) scores of the passes of some images, from their (N, D, h, w) input of the dropout."""
    images, channels, regions = len(x), x.shape[1], x[0, 0].numel()
    values = (x / masks.keep).reshape(images, channels, 1, regions)
    parts = []
    for mask in masks.pieces((channels, regions), x.device):
        maps = _product(weight, _masked(values, mask).flatten(2), bias)
        maps = maps.view(images, len(weight), -1, *x.shape[2:]).transpose(1, 2)
        scores = maps.flatten(2) if head.pool is None else head.pool(maps.flatten(0, 1)).unflatten(0, (images, -1))
        parts.append(scores)
    scores = torch.cat(parts, 1)
    if head.graph is None:
        return scores
    states = masks.samples * head.graph.num_classes * head.graph.hidden
    cut = 1 + 2 * states // _piece(x.device)  # about two states fit, and even parts are the fastest
    rows = scores if x.device.type == "cpu" else (scores.flatten(0, 1),)  # on a CPU each image by itself, see above
    if x.device.type != "cpu":
        cut = 1 + 2 * states * images // _piece(x.device)
    found = [head.graph(part) for own in rows for part in own.chunk(cut)]
    return torch.cat(found).unflatten(0, (images, -1))


def _product(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """``weight @ x + bias`` of each image, (C, D) and (N, D, k) to (N, C, k), as products of their own."""
    each = weight.expand(len(x), *weight.shape)
    return torch.bmm(each, x) if bias is None else torch.baddbmm(bias[:, None], each, x)


def _piece(device: torch.device) -> int:
    return _PIECE.get(device.type, _PIECE_ELSEWHERE)


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    """Values where the mask is -1, 0 where it is 0; on the bits, which is faster than a product or a choice."""
    bits = torch.int32 if values.dtype == torch.float32 else torch.int64
    return (mask.to(bits) & values.view(bits)).view(values.dtype)


class _Masks:
    """The masks of the passes of some images, from random numbers that are counted, not drawn one after the other.

    An input is kept in pass t where the uniform number ``0.b_1 b_2 ... b_16`` is not below the probability, whose bits
    beyond the last one that is set need not be drawn (0.5 needs one bit). The b_k of 64 passes are the bits of one
    64-bit number of SplitMix64 (Steele, Lea, Flood, 2014), started from seed, image, block of passes and k; the input
    is its place in the sequence.
    """

    def __init__(self, rate: float, samples: int, seed: int, numbers: Tensor) -> None:
        self.threshold = min(max(round(rate * 2**_BITS), 1), 2**_BITS - 1)
        self.keep = 1 - self.threshold / 2**_BITS
        self.samples, self.images = samples, _mix(_mix(torch.tensor(seed)) + numbers.cpu())

    def pieces(self, shape: tuple[int, int], device: torch.device) -> Iterator[Tensor]:
        """Masks of some passes at a time, int32 (N, D, passes, regions), -1 where the input is kept."""
        channels, regions = shape
        step = max(1, _piece(device) // (len(self.images) * channels * regions))
        shifts = torch.arange(_HALF - 1, -1, -1, dtype=torch.int32, device=device).view(1, 1, _HALF, 1)
        for block in range(-(-self.samples // (2 * _HALF))):
            kept = self._kept(block, channels * regions, device).view(-1, channels, 1, regions)
            for half, bits in enumerate((kept, kept >> _HALF)):
                word, first = bits.to(torch.int32), (2 * block + half) * _HALF
                for low in range(0, min(_HALF, self.samples - first), step):
                    high = min(low + step, _HALF, self.samples - first)
                    yield (word << shifts[:, :, low:high]) >> (_HALF - 1)  # bit t goes to the sign, which fills it

    def _kept(self, block: int, count: int, device: torch.device) -> Tensor:
        """int64 (N, count): bit t of number d is set where input d is kept in pass t of the block."""
        last = _BITS - (self.threshold & -self.threshold).bit_length() + 1  # the last bit that is set
        starts = _mix(self.images[:, None] + block * _BITS + torch.arange(last)).to(device).unsqueeze(2)
        step = max(1, _DRAWN.get(device.type, _DRAWN_ELSEWHERE) // len(starts))
        parts = []
        for places in torch.arange(1, count + 1, device=device).split(step):
            words = _mix(starts + places * _GAMMA)
            kept = words[:, -1]
            for k in range(last - 2, -1, -1):
                kept = words[:, k] & kept if self.threshold >> (_BITS - 1 - k) & 1 else words[:, k] | kept
            parts.append(kept)
        return torch.cat(parts, 1)


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's output of a state, on int64: products wrap around, and the shifts are those of unsigned numbers."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _FIRST
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _SECOND
    return z ^ ((z >> 31) & (2**33 - 1))
