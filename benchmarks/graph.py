"""Forward and backward of the label graph against algorithm 2 as it is usually written, C = 600, B = 16, T = 3.

Run ``python -m benchmarks.graph [--threads N]``. The plain version builds the one-hot states, takes the messages as
(sum - own)/(C-1) too, and calls torch.nn.GRUCell on all nodes in every step. Both have the same weights; outputs and
all gradients are compared first, and the run stops where they differ by more than 1e-5. Peak memory is measured in a
process for each side: what the resident set grows by in one forward and backward (with and without the allocator's
free lists), and the highest sum of live tensors by the profiler. C = 9,605 with d = 8, B = 2 runs in a process of its
own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import profile

from benchmarks.timing import compare, interleaved, machine, save
from partlabel.method.graph import LabelGraph

IMAGES, CLASSES, ROUNDS = 16, 600, 5
TOLERANCE = 1e-5


class Plain(nn.Module):
    """Algorithm 2, step by step."""

    def __init__(self, num_classes: int, steps: int = 3) -> None:
        super().__init__()
        self.num_classes, self.steps = num_classes, steps
        self.message = nn.Linear(num_classes, num_classes)
        self.gru = nn.GRUCell(num_classes, num_classes)

    def forward(self, scores: Tensor) -> Tensor:
        h0 = h = torch.diag_embed(scores)
        for _ in range(self.steps):
            f = torch.relu(self.message(h))
            m = (f.sum(1, keepdim=True) - f) / (self.num_classes - 1)
            h = self.gru(m.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        return torch.diagonal(h0 + h, dim1=1, dim2=2)


def problem(kind: str) -> tuple[nn.Module, Tensor]:
    """One side with its scores; both sides draw the same weights."""
    torch.manual_seed(0)
    if kind == "large":
        return LabelGraph(9605, hidden=8), torch.randn(2, 9605, requires_grad=True)
    plain = Plain(CLASSES)
    scores = torch.randn(IMAGES, CLASSES, requires_grad=True)
    if kind == "plain":
        return plain, scores
    graph = LabelGraph(CLASSES)
    graph.load_state_dict(plain.state_dict())
    return graph, scores


def step(model: nn.Module, scores: Tensor) -> None:
    scores.grad = None
    model.zero_grad()
    model(scores).square().sum().backward()


def differences() -> dict[str, float]:
    """Largest difference of outputs and, relative to the largest entry of each, of gradients."""
    results = []
    for kind in ("partlabel", "plain"):
        model, scores = problem(kind)
        output = model(scores)
        inputs = {"scores": scores, **dict(model.named_parameters())}
        gradients = torch.autograd.grad(output.square().sum(), list(inputs.values()))
        results.append((output, dict(zip(inputs, gradients, strict=True))))
    (own, own_gradients), (peer, peer_gradients) = results
    found = {"output": (own - peer).abs().max().item()}
    for name, gradient in peer_gradients.items():
        found[name] = ((own_gradients[name] - gradient).abs().max() / gradient.abs().max()).item()
    if max(found.values()) > TOLERANCE:
        raise SystemExit(f"the two sides differ: {found}")
    return found


def resident_mb() -> float:
    """Highest resident set of this process so far; ru_maxrss would be inherited from the parent."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def memory_child(kind: str) -> None:
    """Print what one forward and backward needs, in MB."""
    torch.set_num_threads(1)
    model, scores = problem(kind)
    before = resident_mb()
    step(model, scores)
    result = {"process_mb": resident_mb(), "resident_mb": resident_mb() - before}
    with profile(profile_memory=True) as recorded:
        step(model, scores)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    live = [event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]"]
    print(json.dumps({**result, "live_tensors_mb": max(live) / 2**20}))


def memory(kind: str, **environment: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.graph", "--memory", kind]
    done = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", choices=["partlabel", "plain", "large"])
    arguments = parser.parse_args()
    if arguments.memory:
        memory_child(arguments.memory)
        return
    torch.set_num_threads(arguments.threads)
    checks = differences()
    peaks: dict[str, Any] = {side: memory(side) for side in ("partlabel", "plain")}
    returned = {side: memory(side, MALLOC_MMAP_THRESHOLD_="1000000")["resident_mb"] for side in peaks}
    for side, value in returned.items():
        peaks[side]["resident_mb_without_free_lists"] = value
    peaks["ratio"] = {key: peaks["partlabel"][key] / peaks["plain"][key] for key in peaks["plain"]}
    large = memory("large")
    sides = {kind: problem(kind) for kind in ("partlabel", "plain")}
    times = interleaved({kind: lambda side=side: step(*side) for kind, side in sides.items()}, ROUNDS, 1)
    save(
        "graph",
        {
            "machine": machine(), "images": IMAGES, "classes": CLASSES, **compare(times, "plain"),
            "largest_differences": checks, "memory": peaks, "classes_9605_hidden_8_images_2": large,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
