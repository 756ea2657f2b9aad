"""Images with partly known labels, for a training loop of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from partlabel.images.decoding import decode
from partlabel.images.locate import resolve
from partlabel.labels.table import LabelTable


class PartialLabelDataset(Dataset[tuple[Any, Tensor]]):
    """Each item is (image, target): what ``transform`` makes of an RGB ``PIL.Image``, and int8 (C,) labels.

    Targets are +1 present, -1 absent, 0 unknown, as :class:`partlabel.PartialBCE` takes them. Images are turned
    upright by their EXIF orientation. The labels of an image are made dense when it is asked for, so millions of images
    and thousands of classes cost no more than the table.

    Attributes:
        labels: the table.
        classes: C class names, in the order of the targets.
        paths: N image files.

    >>> import tempfile, pathlib
    >>> from PIL import Image
    >>> from partlabel import LabelTable, PartialLabelDataset
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> Image.new("RGB", (8, 6)).save(folder / "a.png")
    >>> labels = LabelTable.from_dense(["a.png"], ["cat", "dog"], [[1, 0]])
    >>> image, target = PartialLabelDataset(labels, folder)[0]
    >>> image.size, target
    ((8, 6), tensor([1, 0], dtype=torch.int8))
    """

    def __init__(
        self,
        labels: LabelTable,
        images: str | os.PathLike[str],
        transform: Callable[[Image.Image], Any] | None = None,
    ) -> None:
        """Find the file of every image.

        Args:
            labels: the table; its image names are files in ``images``.
            images: the folder of the images.
            transform: from an RGB ``PIL.Image`` to what the loop wants, such as transforms of torchvision or timm.

        Raises:
            UserError: images are missing; all are listed.
        """
        self.labels = labels
        self.classes = labels.classes
        self.paths = resolve(labels.images, images)
        self.transform = transform

    def __len__(self) -> int:
        """Return N."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        """Return (image, target) of one image.

        Raises:
            ImageError: the file cannot be decoded.
        """
        image: Any = Image.fromarray(decode(self.paths[index]))
        if self.transform is not None:
            image = self.transform(image)
        return image, torch.from_numpy(self.labels.dense([index])[0])
