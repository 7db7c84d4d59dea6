"""What a host twin says of its kernel: parameters, compile-time constants and launch geometry.

Nothing here needs a GPU. A twin gives a `Launch`; whoever runs it (CUDA, or the tests' CPU stand-in)
is handed the launch and the arguments, already checked and typed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Array:
    """A pointer parameter: a C-contiguous array of `dtype`, written by the kernel or only read."""

    name: str
    dtype: str
    written: bool = False


@dataclass(frozen=True)
class Scalar:
    """A parameter passed by value, of exactly `dtype`."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Kernel:
    """A kernel: its file in kernels_cu/ and its entry point share `name`.

    `architectures`, as the compiler names them, are those that it exists for; none are all. One that
    `overlaps` waits by itself for what comes before it (kernels_cu/dependent.cuh), and may be launched early.
    """

    name: str
    parameters: tuple[Array | Scalar, ...]
    architectures: tuple[str, ...] = ()
    overlaps: bool = False

    def exists_for(self, architecture: str) -> bool:
        """Whether the compiler takes it for an architecture."""
        return not self.architectures or architecture in self.architectures

    def pack(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments as the kernel's types, or TypeError, ValueError or OverflowError."""
        if len(arguments) != len(self.parameters):
            raise TypeError(
                f"kernel {self.name} takes {len(self.parameters)} arguments, got {len(arguments)}"
            )
        pairs = zip(self.parameters, arguments, strict=True)
        return tuple(self._pack_one(parameter, argument) for parameter, argument in pairs)

    def __hash__(self) -> int:
        """By the name alone: launches are looked up by it all the time."""
        return hash(self.name)

    def _pack_one(self, parameter: Array | Scalar, argument: Any) -> Any:
        kind = _kind(parameter.dtype)
        if isinstance(parameter, Scalar):
            try:
                return _scalar(kind, argument)
            except OverflowError:
                raise OverflowError(f"{self._place(parameter)}: {argument} does not fit {kind}") from None
            except (TypeError, ValueError):
                raise TypeError(f"{self._place(parameter)}: {argument!r} is no {kind}") from None
        dtype = getattr(argument, "dtype", None)
        if dtype is None or dtype != kind:
            found = dtype or type(argument)
            raise TypeError(f"{self._place(parameter)}: expected an array of {kind}, got {found}")
        if not argument.flags.c_contiguous:
            strides = argument.strides
            raise ValueError(f"{self._place(parameter)}: the array is not C-contiguous (strides {strides})")
        return argument

    def _place(self, parameter: Array | Scalar) -> str:
        return f"kernel {self.name}, argument {parameter.name}"


_kind = functools.cache(np.dtype)


def _scalar(kind: np.dtype[Any], argument: Any) -> Any:
    """A number as exactly `kind`. numpy by itself would cut an np.int64 to 32 bits without a word."""
    if kind.kind in "iu":
        return kind.type(index(argument))
    value = float(argument)
    if math.isfinite(value) and abs(value) > _largest(kind):
        raise OverflowError
    return kind.type(value)


@functools.cache
def _largest(kind: np.dtype[Any]) -> float:
    return float(np.finfo(kind).max)


@dataclass(frozen=True)
class Launch:
    """A kernel with the constants it is compiled with and the geometry it is launched with."""

    kernel: Kernel
    defines: tuple[tuple[str, int], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


class Runner(Protocol):
    """Runs launches in the order they are given (on one stream, or on the CPU in the tests)."""

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Enqueue one launch."""
        ...


def ceil_div(value: int, divisor: int) -> int:
    """The smallest integer not below value / divisor."""
    return -(-value // divisor)


def elementwise(kernel: Kernel, count: int, threads: int = 256) -> Launch:
    """One thread an element of `count`, `threads` to a block."""
    return Launch(kernel, (("THREADS", threads),), (ceil_div(count, threads), 1, 1), (threads, 1, 1))


def check_shape(what: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """ValueError, quoting both, unless an array has the shape that its partners ask for."""
    if got != wanted:
        raise ValueError(f"{what}: shape {got}, expected {wanted}")
