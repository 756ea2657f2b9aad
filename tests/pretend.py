"""A pretend accelerator: tensors that say they are on another device, and lie in ordinary memory.

An operation that mixes them with tensors of the CPU raises, as on a real device. What would make the program wait for
the device is counted, with the line of partlabel that asked for it: values read back, copies from memory that is not
pinned, results whose size depends on values. Kernels are counted too.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend


class _Backend(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


_setup_privateuseone_for_python_backend("pretend", backend_module=_Backend())
DEVICE = torch.device("pretend:0")
_ATEN = torch.ops.aten
_WAITS = {
    _ATEN._local_scalar_dense.default: "a value is read",
    _ATEN.nonzero.default: "nonzero",
    _ATEN.masked_select.default: "masked_select",
    _ATEN.equal.default: "equal",
    _ATEN.is_nonzero.default: "a value is read",
}
_INDEXED = {_ATEN.index.Tensor, _ATEN.index_put.default, _ATEN.index_put_.default, _ATEN._unsafe_index.Tensor}


class MixedDevicesError(RuntimeError):
    """Tensors of two devices in one operation."""


class Pretend(torch.Tensor):
    """A tensor on the pretend device."""

    @staticmethod
    def __new__(cls, data: torch.Tensor) -> Pretend:
        made = torch.Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride(), storage_offset=data.storage_offset(), dtype=data.dtype,
            device=DEVICE, requires_grad=False,
        )  # fmt: skip
        made.data_here = data
        return made

    def __repr__(self) -> str:
        return f"Pretend({self.data_here!r})"

    def tolist(self) -> Any:
        _note("a value is read")
        return self.data_here.detach().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert a tensor of the pretend device to numpy")

    __array__ = numpy
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class Counted:
    """What happened: ``waits``, what would have made the program wait, and where; ``kernels``, how many."""

    def __init__(self) -> None:
        self.waits: Counter[tuple[str, str]] = Counter()
        self.kernels = 0


_counted: list[Counted] = []
#: tensors that were pinned, by their place in memory
_pinned: dict[int, torch.Tensor] = {}


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in memory that the pretend device reads without waiting; it is kept until the counting ends."""
    _pinned[tensor.data_ptr()] = tensor
    return tensor


def _note(what: str) -> None:
    lines = [f for f in reversed(traceback.extract_stack()) if "src/partlabel" in f.filename][:2]
    place = " < ".join(f"{line.filename.split('partlabel/')[-1]}:{line.lineno}" for line in lines) or "?"
    for counted in _counted:
        counted.waits[(what, place)] += 1


def _is_pretend(value: Any) -> bool:
    return isinstance(value, Pretend)


def _plain(value: Any) -> Any:
    return value.data_here if _is_pretend(value) else value


def _wrapped(value: Any) -> Any:
    return Pretend(value) if isinstance(value, torch.Tensor) and not _is_pretend(value) else value


def _run(function: Any, args: Any, kwargs: Any) -> Any:
    flat, _ = tree_flatten((args, kwargs))
    ours = [value for value in flat if _is_pretend(value)]
    device = kwargs.get("device")
    there = device is not None and torch.device(device).type == DEVICE.type
    plain_args, plain_kwargs = tree_map(_plain, args), tree_map(_plain, kwargs)
    if there:
        plain_kwargs["device"] = torch.device("cpu")
    if function is _ATEN._to_copy.default:
        return _copied(args, kwargs, plain_args, plain_kwargs, there or (device is None and _is_pretend(args[0])))
    if function is _ATEN.copy_.default:
        if _is_pretend(args[0]) != _is_pretend(args[1]):
            _note("a copy between devices")
        function(*plain_args)
        return args[0]
    if ours:
        _look(function, args, flat)
    for counted in _counted:
        counted.kernels += bool(ours or there)
    out = function(*plain_args, **plain_kwargs)
    if not (ours or there):
        return out
    if function._schema.is_mutable:  # the tensors that were given come back
        given = {id(value.data_here): value for value in ours}
        return tree_map(lambda value: given.get(id(value), _wrapped(value)), out)
    return tree_map(_wrapped, out)


def _copied(args: Any, kwargs: Any, plain_args: Any, plain_kwargs: Any, stays: bool) -> Any:
    if _is_pretend(args[0]) and not stays:
        _note("a copy to the CPU")
    elif not _is_pretend(args[0]) and stays and not kwargs.get("non_blocking"):
        _note("a copy that is waited for")
    elif not _is_pretend(args[0]) and stays and args[0].data_ptr() not in _pinned:
        _note("a copy of memory that is not pinned")
    plain_kwargs.pop("non_blocking", None)
    out = _ATEN._to_copy.default(*plain_args, **plain_kwargs)
    if out.numel() and out.data_ptr() == plain_args[0].data_ptr():
        out = out.clone()
    return _wrapped(out) if stays else out


def _look(function: Any, args: Any, flat: list[Any]) -> None:
    """Refuse mixed devices, and note what waits."""
    others = [value for value in flat if isinstance(value, torch.Tensor) and not _is_pretend(value) and value.ndim]
    if function in _INDEXED:
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            _note("an index of bools")
        if any(not _is_pretend(index) for index in indices):
            _note("an index on the CPU")
        if not _is_pretend(args[0]):
            raise MixedDevicesError(f"{function} of a tensor on the CPU by an index on the device")
    elif others:
        raise MixedDevicesError(f"{function} mixes devices")
    if function in _WAITS:
        _note(_WAITS[function])


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


@contextmanager
def counting() -> Iterator[Counted]:
    """Count what happens on the pretend device."""
    counted = Counted()
    with _Mode():
        _counted.append(counted)
        try:
            yield counted
        finally:
            _counted.remove(counted)
            _pinned.clear()
