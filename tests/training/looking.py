"""What a training left, weights and rows of its metrics, and a training that is stopped."""

import json

import torch
from safetensors.torch import load_file

import partlabel.training.loop


def weights(run, which="last"):
    return load_file(run / which / "model.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def rows(run):
    """The rows of metrics.jsonl without what depends on the clock."""
    clock = ("seconds", "images_per_second", "checksum")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in clock} for line in lines]


def stop_before(monkeypatch, epoch):
    """End the training, as by Ctrl+C, before an epoch begins."""
    original = partlabel.training.loop.train_epoch

    def stopping(job, state, batches, number):
        if number == epoch:
            raise KeyboardInterrupt
        return original(job, state, batches, number)

    monkeypatch.setattr(partlabel.training.loop, "train_epoch", stopping)
