"""Processes that fork from one in which torch is imported already, so that a start costs next to nothing."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: imported once, before the first process is started; each begins with them
PRELOADED = [
    "torch",
    "torch.distributed",
    "partlabel.training.loop",
    "partlabel.metrics",
    "partlabel.formats",
    "partlabel.tasks.predict",
    "partlabel.app.review.app",
    "partlabel.app.review.server",
    "partlabel.app.cli.importing",
    "partlabel.app.cli.runs",
    "partlabel.app.cli.steps",
    "pytest",
    "httpx",
    "pandas",  # which pyarrow imports at the first list that becomes an array
    "lxml.etree",
    "pyarrow.csv",
    "pyarrow.json",
]


def context() -> Any:
    """How processes are started: forked from one that has imported what is slow to import, where the system can."""
    forking = "forkserver" in multiprocessing.get_all_start_methods()
    found = multiprocessing.get_context("forkserver" if forking else "spawn")
    found.set_forkserver_preload(PRELOADED)
    return found


def free_port() -> int:
    """A port that nobody listens at, below those that systems give out, so that none gets it before it is used."""
    while True:
        port = 15_000 + secrets.randbelow(17_000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Started:
    """A process that calls a function: what `subprocess.Popen` gives, as far as tests need it.

    Args:
        function: of a module that can be imported.
        arguments: what can be pickled.
        said: file, without its ending, that gets what the process prints.
        environment: its whole environment; None is ours.
    """

    def __init__(
        self,
        function: Callable[..., None],
        arguments: Sequence[Any],
        said: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.printed = [said.with_suffix(".out"), said.with_suffix(".err")]
        own = dict(os.environ if environment is None else environment)
        self._process = context().Process(target=_call, args=(function, arguments, self.printed, own), daemon=True)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def hear(self, words: str) -> str:
        """Wait for a line of its output with these words in it."""
        while True:
            ended = self.poll() is not None
            said = self.printed[0].read_text(encoding="utf-8") if self.printed[0].exists() else ""
            for line in said.splitlines(keepends=True):
                if words in line and line.endswith("\n"):
                    return line
            assert not ended, f"ended with {self.returncode}: {[path.read_text() for path in self.printed]}"
            time.sleep(0.01)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"still at work after {timeout} s"

    def communicate(self, timeout: float | None = None) -> tuple[str, ...]:
        """Wait for its end; give what it printed."""
        self.wait(timeout)
        return tuple(path.read_text(encoding="utf-8") for path in self.printed)

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it, if it still runs."""
        self._process.kill()


def _call(
    function: Callable[..., None], arguments: Sequence[Any], printed: Sequence[Path], environment: dict[str, str]
) -> None:
    for number, path in enumerate(printed, start=1):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, number)
        os.close(target)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    # ended with its parent, as daemons are, and yet allowed to start loaders of its own, as daemons are not
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    function(*arguments)


def run_script(script: Path, words: Sequence[str], place: Path, environment: Mapping[str, str]) -> str:
    """Run a script in a folder as ``python script words``; give what it printed, once it ended well."""
    started = Started(_run_script, (script, words, place), place / f"said-by-{script.stem}", environment)
    said, errors = started.communicate(timeout=600)
    assert started.returncode == 0, errors
    return said


def _run_script(script: Path, words: Sequence[str], place: Path) -> None:
    os.chdir(place)
    sys.argv, sys.path[0] = [str(script), *words], str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


def write_variable(name: str, path: Path) -> None:
    """Write the value of a variable of the environment into a file."""
    path.write_text(os.environ[name], encoding="utf-8")


def run_ranks(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """Call ``function(rank, *arguments)`` in processes with the environment of torchrun; all of them have to end well.

    Args:
        world: number of processes.
        function: of a module that can be imported.
        arguments: what can be pickled.
    """
    port = free_port()
    processes = [
        context().Process(target=_rank, args=(rank, world, port, function, arguments), daemon=True)
        for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=600)
    assert [process.exitcode for process in processes] == [0] * world


def _rank(rank: int, world: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    import torch

    torch.set_num_threads(1)
    function(rank, *arguments)
