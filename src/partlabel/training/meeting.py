"""Where processes that were started together meet before a training: all of them begin it, or all of them end.

What is wrong with one of them, or with all, is said once, by the first process. They meet at a store of PyTorch's, of
which nothing but an address is known yet; the process group comes later.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from lightning_fabric.plugins.environments import ClusterEnvironment, SLURMEnvironment

from partlabel.core.compute import Processes, processes
from partlabel.core.errors import UserError
from partlabel.core.trouble import keep, machine_says

#: how often this process has met the others
_meetings = 0
#: seconds that a process which says nothing leaves to the one that speaks, and this to those that have to hear it
SILENCE = 5.0
#: seconds between two looks
LOOK = 0.05


class Launched(ClusterEnvironment):
    """What Fabric asks about processes that ``torchrun`` or ``srun`` started, answered by :func:`processes`."""

    def __init__(self, here: Processes) -> None:
        super().__init__()
        self.here = here
        is_slurm = "WORLD_SIZE" not in os.environ
        own = SLURMEnvironment() if is_slurm else None
        self.address = own.main_address if own else os.environ.get("MASTER_ADDR", "127.0.0.1")
        self.port = own.main_port if own else int(os.environ.get("MASTER_PORT", 12910))

    creates_processes_externally = property(lambda self: True)
    main_address = property(lambda self: self.address)
    main_port = property(lambda self: self.port)

    @staticmethod
    def detect() -> bool:
        """Whether this process is one of several."""
        return processes().world > 1

    def world_size(self) -> int:
        """The number of processes."""
        return self.here.world

    def set_world_size(self, size: int) -> None:
        """Do nothing, as it is given."""

    def global_rank(self) -> int:
        """The number of this process."""
        return self.here.rank

    def set_global_rank(self, rank: int) -> None:
        """Do nothing, as it is given."""

    def local_rank(self) -> int:
        """Its number on its node."""
        return self.here.local_rank

    def node_rank(self) -> int:
        """The number of its node."""
        return self.here.rank // self.here.local_world

    def store(self, patience: timedelta) -> dist.Store:
        """The store of all processes, which the first one keeps, or ``torchrun`` for it.

        Raises:
            DistError: nobody keeps it within that time.
        """
        is_kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        first = self.here.rank == 0 and not is_kept
        # PyTorch opens the same port once more for its process group, which in one process is the same store
        kept = dist.TCPStore(
            self.address, self.port, None, first, timeout=patience, wait_for_workers=False, multi_tenant=True
        )
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return dist.PrefixStore(f"partlabel/{attempt}/{_meetings}", kept)


def meet(patience: timedelta, wrong: UserError | None = None) -> tuple[Launched, dist.Store]:
    """Wait for the other processes, hear what is wrong with any, and end if anything is.

    Args:
        patience: how long the others are waited for.
        wrong: why this process cannot begin.

    Returns:
        Who they are, and their store.

    Raises:
        UserError: in the first process, what is wrong.
        SystemExit: in all others.
    """
    global _meetings
    _meetings += 1
    here = processes()
    everyone, store = Launched(here), None
    own = {"who": f"process {here.rank} on {platform.node()}", "local_world": here.local_world}
    own |= {"message": None} if wrong is None else {"message": wrong.message, "offenders": wrong.offenders}
    keys = [f"begin/{rank}" for rank in range(here.world)]
    try:
        store = everyone.store(patience)
        store.set(keys[here.rank], json.dumps(own))
        store.wait(keys, patience)
    except dist.DistError as error:
        if here.rank if store else here.local_rank:  # without a store, one of each node speaks
            raise SystemExit(2) from None
        late = UserError(f"the {here.world} processes did not find each other within {patience}")
        raise (late if wrong is None else wrong) from error
    found = _mistake([json.loads(store.get(key)) for key in keys])
    if found is None:
        return everyone, store
    if here.rank:
        store.set(f"heard/{here.rank}", "")
        time.sleep(SILENCE)
        raise SystemExit(2)
    until_heard(store, here.world)
    raise found


def _mistake(said: list[dict[str, Any]]) -> UserError | None:
    """What is wrong, of what every process has said."""
    wrong = [each for each in said if each["message"] is not None]
    if wrong:
        one = wrong[0]
        everywhere = len({each["message"] for each in wrong}) == 1 and len(wrong) == len(said)
        begin = "" if everywhere or one is said[0] else f"{one['who']}: "
        return UserError(begin + one["message"], one["offenders"])
    counts = {each["local_world"]: each["who"] for each in reversed(said)}
    if len(counts) > 1:
        text = ", ".join(f"{who} is one of {count}" for count, who in reversed(counts.items()))
        return UserError(f"every node needs the same number of processes; {text}")
    return None


def until_heard(store: dist.Store, world: int) -> None:
    """Wait until the others have heard that this process, which keeps the store, speaks; not for ever."""
    keys, end = [f"heard/{rank}" for rank in range(1, world)], time.monotonic() + SILENCE
    while time.monotonic() < end and not store.check(keys):
        time.sleep(LOOK)


def have_met() -> bool:
    """Whether this process has met the others, so that its mistakes are said once."""
    return _meetings > 0


@contextmanager
def saying_once(patience: timedelta) -> Generator[None]:
    """A block before the processes have met: what is wrong in it, in any of them, is said once, and nobody waits."""
    try:
        yield
    except UserError as error:
        if processes().world > 1:
            meet(patience, error)
        raise
    except Exception as error:
        if processes().world > 1:
            with suppress(UserError):  # the first process has a fault of its own to tell of
                meet(patience, _as_mistake(error))
        raise


def _as_mistake(error: Exception) -> UserError:
    """A fault, or what the machine refuses, as the first process tells it of another one."""
    reason = machine_says(error) or f"a fault of partlabel ended this ({type(error).__name__})"
    path = keep(error, sys.argv)
    return UserError(reason if path is None else f"{reason}; what happened is in {path}")


def is_first_to_say(message: str) -> bool:
    """Whether no other process that ``torchrun`` started has said this; elsewhere each says what it has to."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return True
    try:
        return Launched(processes()).store(timedelta(seconds=SILENCE)).add(f"said/{message}", 1) == 1
    except dist.DistError:
        return True
