"""What a training left: weights and rows of its metrics."""

import json

import torch
from safetensors.torch import load_file


def weights(run, which="last"):
    return load_file(run / which / "model.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def rows(run):
    """The rows of metrics.jsonl without what depends on the clock."""
    clock = ("seconds", "images_per_second", "checksum")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in clock} for line in lines]
