"""The kinds of tries of a soak: a command with faults, several at once, people at the page, damaged files."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from partlabel.core.errors import UserError
from tests.disk import at_once as together
from tests.disk import layer
from tests.disk.commands import words_of
from tests.disk.matrix import Bench, Cell, compare, judge, left_behind
from tests.soak.damage import FILES
from tests.soak.page import people

#: name -> mode, error; "by time" kills after a while, whatever the process does then
FAULTS = {
    "full disk": (layer.FROM_ON, layer.ERRORS["full"][1]),
    "one call fails": (layer.ONCE, layer.ERRORS["broken"][1]),
    "killed at a call": (layer.KILL, 0),
    "killed by time": (layer.COUNT, 0),
    "stopped by time": (layer.COUNT, 0),
}
#: good ends by world and command, so that each is found once
_good: dict[tuple[Path, str], tuple[Any, dict[str, str], dict[str, str], int, float]] = {}


@dataclass
class Try:
    """One try.

    Attributes:
        bench: where.
        rng: decides everything.
        commands: to choose from.
        about: what was tried, in words.
        fault: the kind of fault, for the table at the end.
        wrong: what went wrong.
    """

    bench: Bench
    rng: np.random.Generator
    commands: list[str]
    about: str = ""
    fault: str = ""
    wrong: list[str] = field(default_factory=list)


def good_end(bench: Bench, command: str) -> tuple[Any, dict[str, str], dict[str, str], int, float]:
    """Exit code, state before and after, number of calls and seconds of a command on a sound disk."""
    key = (bench.base, command)
    if key not in _good:
        bench.fresh()
        before, began = bench.state(), time.monotonic()
        code, said, calls = bench.run(command)
        if code not in (0, 2) or "Traceback" in said:
            raise SystemExit(f"{command} without a fault ended with {code}: {said}")
        _good[key] = (code, before, bench.state(), len(calls), time.monotonic() - began)
    return _good[key]


def chosen(tried: Try) -> str:
    """A command; those that take long come less often."""
    weights = np.array([0.1 if name.startswith("export") else 1.0 for name in tried.commands])
    return str(tried.rng.choice(tried.commands, p=weights / weights.sum()))


def faulty(tried: Try) -> None:
    """One command, with up to three faults one after the other, and then without any."""
    bench, rng = tried.bench, tried.rng
    command = chosen(tried)
    code, before, good, calls, seconds = good_end(bench, command)
    bench.fresh()
    tried.fault = str(rng.choice(list(FAULTS)))
    tried.about = command
    for number in range(int(rng.integers(1, 4))):
        fault = tried.fault if not number else str(rng.choice(list(FAULTS)))
        mode, error = FAULTS[fault]
        at = int(rng.integers(max(calls, 1)))
        stop = float(rng.uniform(0, 1.2 * seconds)) if "time" in fault else None
        tried.about += f", {fault} at {at if stop is None else f'{stop:.2f} s'}"
        cell = Cell(command, fault, at, "")
        earlier = {name for name in bench.state() if name.startswith("tmp/")}  # of a kill, until somebody needs such
        number_of_signal = signal.SIGKILL if fault.startswith("killed") else signal.SIGTERM
        options = {"again": number > 0, "stop": stop, "by": number_of_signal}
        cell.code, cell.said, made = bench.run(command, mode, at, error, **options)
        cell.call = made[at] if at < len(made) else ""
        if not fault.startswith(("killed", "stopped")):
            judge(cell, before, good, {name: what for name, what in bench.state().items() if name not in earlier})
        elif cell.code not in (0, 2, 130, 143, -signal.SIGKILL, -signal.SIGTERM):
            tried.wrong.append(f"ended with {cell.code}: {cell.said[-300:]}")
        tried.wrong += [f"{what}: {cell.said[-300:]!r}" for what in cell.wrong]
    again, said, _ = bench.run(command, again=True)
    if again != code:
        tried.wrong.append(f"ended with {again} in the end, not {code}: {said[-300:]!r}")
        return
    end = bench.state()
    tried.wrong += compare(good, end)
    tried.wrong += left_behind(end)


def at_once(tried: Try) -> None:
    """The same command started two to five times at once: each ends well or is told who is at work."""
    bench, rng = tried.bench, tried.rng
    command = chosen(tried)
    code, _, good, _, _ = good_end(bench, command)
    count = int(rng.integers(2, 6))
    tried.about, tried.fault = f"{command}, {count} at once", "none"
    bench.fresh()
    ends = together.start(bench, command, [0.0] * count)
    tried.wrong += together.judge(ends, code, good, bench.state())


def damaged(tried: Try) -> None:
    """A bit flips, or a piece is lost, in one of the run's own files: that is noticed, or changes nothing."""
    bench, rng = tried.bench, tried.rng
    bench.fresh()
    name = str(rng.choice(list(FILES)))
    path = bench.disk / "place" / name
    if not path.is_file():
        tried.about, tried.fault = f"{name} is not there", "none"
        return
    content = bytearray(path.read_bytes())
    sound = FILES[name](bench.disk / "place")
    tried.fault = str(rng.choice(["a bit", "zeros", "cut off"]))
    at = int(rng.integers(len(content)))
    if tried.fault == "a bit":
        content[at] ^= 1 << int(rng.integers(8))
    elif tried.fault == "zeros":
        content[at : at + 4096] = bytes(len(content[at : at + 4096]))
    else:
        del content[at:]
    tried.about = f"{name}, {tried.fault} at {at}"
    path.write_bytes(content)
    try:
        found = FILES[name](bench.disk / "place")
    except UserError as error:
        if not str(error).strip():
            tried.wrong.append("refused without a word")
    except Exception as error:
        tried.wrong.append(f"{type(error).__name__}: {error}"[:300])
    else:
        if found != sound:
            tried.wrong.append("was read as something else, without a word")


def page(tried: Try) -> None:
    """People at the review page, whose server is killed, stopped, or finds the disk full."""
    tried.bench.fresh()
    tried.fault = str(tried.rng.choice(list(FAULTS)))
    tried.about = f"{tried.fault}, {words_of('review', Path('place'), Path())[0]}"
    mode, error = FAULTS[tried.fault]
    people(tried.bench, tried.rng, tried.fault, mode, error, tried.wrong)


#: name -> what is done, and its share of the tries
TRIES: dict[str, tuple[Callable[[Try], None], float]] = {
    "command": (faulty, 0.5),
    "at once": (at_once, 0.1),
    "damaged file": (damaged, 0.2),
    "page": (page, 0.2),
}
