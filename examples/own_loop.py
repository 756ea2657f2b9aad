"""A training loop of your own: partlabel's labels, images and loss, and a network of yours.

python examples/make_scenes.py my_images 300
python examples/own_loop.py my_images
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import partlabel as pl


def network(classes: int) -> nn.Module:
    """Any module that gives one score for each class will do."""
    layers: list[nn.Module] = []
    for channels, wider in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(128, classes))


def main(folder: str, epochs: int = 8) -> None:
    """Train on four fifths of the images, and measure on the known labels of the others."""
    torch.manual_seed(0)
    place = Path(folder)
    labels = pl.read("csv", place / "labels.csv", coding="1=present,0=absent,blank=unknown")
    train, held_out = (labels[rows] for rows in labels.split([0.8, 0.2], seed=0))

    look = v2.Compose([v2.ToImage(), v2.Resize((64, 64)), v2.ToDtype(torch.float32, scale=True)])
    loader = DataLoader(pl.PartialLabelDataset(train, place / "photos", look), batch_size=16, shuffle=True)
    model, loss = network(labels.num_classes), pl.PartialBCE()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        total = 0.0
        for images, targets in loader:  # targets: 1 present, -1 absent, 0 unknown
            value = loss(model(images), targets)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item() / len(loader)
        print(f"epoch {epoch + 1}: loss {total:.3f}")

    model.eval()
    with torch.no_grad():
        batches = DataLoader(pl.PartialLabelDataset(held_out, place / "photos", look), batch_size=16)
        scores = torch.cat([model(images) for images, _ in batches])
    found = pl.metrics.evaluate(scores.numpy(), held_out.dense(), class_names=labels.classes)
    print(f"mAP {found.mean_ap:.1%} on {held_out.num_known} known labels of {held_out.num_images} images")


if __name__ == "__main__":  # needed where loader processes import this file anew
    main(sys.argv[1], *map(int, sys.argv[2:]))
