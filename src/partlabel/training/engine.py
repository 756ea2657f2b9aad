"""The engine, Lightning Fabric: devices, precision, several processes. No other file imports it."""

from __future__ import annotations

import atexit
import gc
import json
import platform
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor, nn

from partlabel.core.compute import Crew, Processes, has_gpu, limit_threads, processes
from partlabel.core.errors import PartlabelWarning, UserError
from partlabel.training.config import Config
from partlabel.training.meeting import LOOK, SILENCE, meet, saying_once, until_heard

T = TypeVar("T")
#: after so long without a sign of life from another process, the training ends
PATIENCE = timedelta(minutes=10)
#: seconds between two signs of life
_BEAT = 1.0
#: seconds that are waited for the thread that gives signs of life
_JOIN = 20.0


@dataclass
class Engine:
    """Where a training runs: the device, and this process among those that train together.

    As a context, it sees to it that a mistake ends all processes and is said once: a :class:`UserError` is raised in
    one process, the others exit with status 2 and say nothing.
    """

    fabric: Fabric
    processes: Processes = field(default_factory=Processes)
    store: Any = None

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._phase = 0
        self._is_settled = self._has_heard = False
        if self.world > 1:
            self._store = self.store.clone()  # a connection that no other thread uses
            self._store.add(f"alive/{self.rank}", 1)
            self._signs = threading.Thread(target=self._give_signs, name="signs of life", daemon=True)
            self._signs.start()

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.fabric.device

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self.fabric.global_rank

    @property
    def world(self) -> int:
        """The number of processes."""
        return self.fabric.world_size

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    @property
    def name(self) -> str:
        """This process, in words."""
        return f"process {self.rank} on {platform.node()}"

    # --- what processes have in common ---

    def gather(self, own: Any) -> list[Any]:
        """What every process has, in their order."""
        if self.world == 1:
            return [own]
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, own)
        return parts

    def to_first(self, own: Any) -> list[Any]:
        """What every process has, in their order, for the first one; nothing for the others."""
        if self.world == 1:
            return [own]
        parts: list[Any] | None = [None] * self.world if self.first else None
        dist.gather_object(own, parts)
        return parts or []

    def average(self, value: Tensor) -> Tensor:
        """Replace a tensor by its mean over the processes, in place."""
        if self.world > 1:
            dist.all_reduce(value)
            value /= self.world
        return value

    def wait(self) -> None:
        """Wait for the other processes, which are nearly there."""
        self.fabric.barrier()

    def from_first(self, make: Callable[[], T]) -> T:
        """What ``make`` gives in the first process, which alone calls it; it may take long."""
        made: list[Any] = [None]
        with self.together():
            if self.first:
                made[0] = make()
        if self.world > 1:
            dist.broadcast_object_list(made)
        return made[0]

    @contextmanager
    def together(self) -> Generator[None]:
        """Carry out a block that may take long, or go wrong in some processes only; all of them go on, or none.

        Raises:
            UserError: in the first process, the mistake of the first one that made one, and where.
        """
        wrong: UserError | None = None
        try:
            yield
        except UserError as error:
            if self.world == 1 or self._is_settled:
                raise
            wrong = error
        if self.world > 1:
            self._settle(wrong)

    def _settle(self, wrong: UserError | None) -> None:
        """Tell the others what went wrong here, hear the same of them, and end if anything did."""
        self._phase += 1
        said = None if wrong is None else {"message": wrong.message, "offenders": wrong.offenders, "who": self.name}
        self._store.set(f"{self._phase}/{self.rank}", json.dumps(said))
        found = [json.loads(answer) for answer in self._answers([f"{self._phase}/{r}" for r in range(self.world)])]
        mistakes = [each for each in found if each is not None]
        if not mistakes:
            return
        self._is_settled = True
        if not self.first:
            self._hear(self._store)
            self._leave()
        until_heard(self._store, self.world)
        one = mistakes[0]
        everywhere = len(mistakes) == self.world or one["who"] == self.name
        raise UserError(one["message"] if everywhere else f"{one['who']}: {one['message']}", one["offenders"])

    def crew(self, members: Sequence[int] | None = None) -> Crew:
        """The processes that share work out; of several crews at work at the same time, each gets what its own made.

        Args:
            members: their numbers, this one's among them; None takes all. Each process is in one crew.
        """
        own = list(range(self.world)) if members is None else list(members)

        def collect(make: Callable[[], Any]) -> list[Any]:
            made: list[Any] = [None]
            with self.together():
                made[0] = make()
            found = self.gather(made[0])
            return [found[rank] for rank in own]

        def send(rank: int, make: Callable[[], Any]) -> Any:
            made: list[Any] = [None]
            with self.together():
                if self.rank == own[rank]:
                    made[0] = make()
            if self.world > 1:
                dist.broadcast_object_list(made, src=own[rank])
            return made[0]

        return Crew(own.index(self.rank), len(own), collect, send)

    # --- training ---

    def set_up(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The model and the optimizer as the processes share them."""
        with warnings.catch_warnings():  # the name it goes by from PyTorch 2.14 on is not known to older ones
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            return self.fabric.setup(model, optimizer)

    def sharing(self, net: Any, share: bool) -> AbstractContextManager[Any]:
        """A forward and backward pass after which the gradient is the mean over the processes, if ``share`` says so.

        The forward pass belongs into it: there DDP decides whether the backward pass waits for the other processes,
        which may have fewer parts of a batch.
        """
        return nullcontext() if share or self.world == 1 else self.fabric.no_backward_sync(net)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss."""
        self.fabric.backward(loss)

    def precision_state(self) -> dict[str, Any]:
        """The state of the scaler of half precision, empty where there is none."""
        return self.fabric.strategy.precision.state_dict()

    def restore_precision(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`precision_state`."""
        if state:
            self.fabric.strategy.precision.load_state_dict(state)

    def update(self, net: Any, optimizer: Any, clip_norm: float | None) -> bool:
        """Apply the gradient and clear it; False where half precision overflowed and the step was left out."""
        if clip_norm is not None:
            self.fabric.clip_gradients(net, optimizer, max_norm=clip_norm, error_if_nonfinite=False)
        scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        before = scaler.get_scale() if scaler is not None else 0.0
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return scaler is None or scaler.get_scale() >= before

    # --- one mistake, one sentence ---

    def __enter__(self) -> Engine:
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        if not self.first:  # the first process gives the same ones
            warnings.simplefilter("ignore", PartlabelWarning)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self.world > 1:
            self._signs.join(_JOIN)  # a thread inside the store's code would abort the process at its end
        self._filters.__exit__(None, None, None)
        if error is None or self.world == 1:
            return
        if _is_lost_contact(error):
            error = UserError(f"{self.name} has lost contact with the others, one of which has failed or stands still")
        elif not isinstance(error, UserError):
            return
        if self._is_settled or self._may_speak():
            raise error from None
        self._leave()

    def _may_speak(self) -> bool:
        """Whether nobody has said yet what went wrong; from now on, somebody has."""
        if self._has_heard:
            return False
        try:
            first = self._store.add("said", 1) == 1
        except RuntimeError:  # the store is gone with its process, and nobody can be asked
            return True
        if not first:
            self._hear(self._store)
        elif self.first:  # the store goes with this process
            until_heard(self._store, self.world)
        return first

    def _hear(self, store: dist.Store) -> None:
        """Know that somebody says what went wrong, and let the first process know that this one does."""
        store.set(f"heard/{self.rank}", "")
        self._has_heard = True

    def _leave(self) -> None:
        time.sleep(SILENCE)
        raise SystemExit(2)

    # --- signs of life ---

    def _give_signs(self) -> None:
        try:
            store = self.store.clone()
            while not self._ended.wait(_BEAT):
                store.add(f"alive/{self.rank}", 1)
                if not self._has_heard and store.add("said", 0):
                    self._hear(store)
        except RuntimeError:
            return  # the store is gone, which the others notice too

    def _answers(self, keys: list[str]) -> list[str]:
        """Wait for values in the store as long as all processes live.

        Raises:
            UserError: one has given no sign of life for ``PATIENCE``.
        """
        seen: dict[int, tuple[int, float]] = {}
        looked = 0.0
        while not self._store.check(keys):
            now = time.monotonic()
            if now - looked > min(5 * _BEAT, PATIENCE.total_seconds() / 4):
                if now - looked > PATIENCE.total_seconds():
                    seen.clear()  # this process stood still, and perhaps all did: a job may be suspended
                looked = now
                for rank in range(self.world):
                    count = self._store.add(f"alive/{rank}", 0)
                    if rank not in seen or seen[rank][0] != count:
                        seen[rank] = (count, now)
                silent = [rank for rank, (_, since) in seen.items() if now - since > PATIENCE.total_seconds()]
                if silent:
                    raise UserError(f"process {silent[0]} has not answered for {PATIENCE}; the training ends")
            time.sleep(LOOK)
        return [self._store.get(key).decode() for key in keys]


def _is_lost_contact(error: BaseException) -> bool:
    """Whether an error of torch says that another process is gone or does not answer."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def before_start() -> AbstractContextManager[None]:
    """A block before :func:`start`, whose mistakes are said once, whichever processes make them."""
    return saying_once(PATIENCE)


def start(config: Config) -> Engine:
    """The engine for this process, alone or started by ``torchrun`` or ``srun``.

    Raises:
        UserError: half precision without a GPU, another number of processes on each node, or one that does not come; in
            the first process, the others exit.
    """
    here = processes()
    precision: Any = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}[config.precision]
    with before_start():
        if config.precision == "16" and not has_gpu():
            raise UserError("half precision (16) needs a GPU; choose bf16 or 32")
    limit_threads()
    if here.world == 1:
        return Engine(Fabric(accelerator="auto", devices=1, precision=precision))
    launched, store = meet(PATIENCE)
    fabric = Fabric(
        accelerator="auto" if has_gpu() else "cpu",
        devices=here.local_world,
        num_nodes=here.world // here.local_world,
        strategy=DDPStrategy(timeout=PATIENCE, broadcast_buffers=False),
        precision=precision,
        plugins=[launched],
    )
    if not dist.is_initialized():  # who has begun a process group ends it
        atexit.register(_end_group)
    try:
        fabric.launch()
    except dist.DistError as error:
        if here.local_rank:
            raise SystemExit(2) from None
        raise UserError(f"the {here.world} processes did not find each other within {PATIENCE}") from error
    return Engine(fabric, here, store)


def _end_group() -> None:
    """End the process group while Python is whole.

    Gloo's threads free tensors a moment after the last collective, under Python's lock: one that comes when Python has
    begun to end aborts the process.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()  # DDP holds the group too, and itself
