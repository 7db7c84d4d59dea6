"""What operators ask of their tensors, said in the user's terms: UsageError names both sides."""

from __future__ import annotations

from torch import Tensor

from accel_cli.errors import UsageError


def check_alike(what: str, **tensors: Tensor) -> None:
    """UsageError unless all have the dtype, a floating-point one, and the device of the first."""
    for each, given in tensors.items():
        if not isinstance(given, Tensor):  # PyTorch lets None through
            raise UsageError(f"{what}: {each} is {type(given).__name__}; give a tensor, of zeros for nothing")
    (name, first), *others = tensors.items()
    if not first.is_floating_point():
        raise UsageError(f"{what}: {name} is {first.dtype}; convert it to a floating-point type")
    for other, tensor in others:
        if tensor.dtype != first.dtype:
            raise UsageError(
                f"{what}: {other} is {tensor.dtype}, but {name} is {first.dtype}; convert one of them"
            )
        check_device(what, name, first, other, tensor)


def check_device(what: str, name: str, first: Tensor, other: str, tensor: Tensor) -> None:
    """UsageError unless two tensors are on one device."""
    if tensor.device != first.device:
        raise UsageError(
            f"{what}: {other} is on {tensor.device}, but {name} is on {first.device}; move one of them"
        )


def check_dimensions(what: str, name: str, tensor: Tensor, least: int, most: int | None = None) -> None:
    """UsageError unless it is a tensor of so many dimensions; any number from `least` on without `most`."""
    if not isinstance(tensor, Tensor):
        raise UsageError(f"{what}: {name} is {type(tensor).__name__}, expected a tensor")
    if tensor.dim() < least or (most is not None and tensor.dim() > most):
        wanted = f"{least} or more" if most is None else str(most)
        raise UsageError(
            f"{what}: {name} has shape {list(tensor.shape)}, {tensor.dim()} dimensions, expected {wanted}"
        )


def check_shape(what: str, name: str, tensor: Tensor, wanted: tuple[int, ...], why: str) -> None:
    """UsageError unless a tensor has a shape; `why` says where that comes from."""
    if tuple(tensor.shape) != wanted:
        raise UsageError(
            f"{what}: {name} has shape {list(tensor.shape)}, expected {list(wanted)}, because {why}"
        )
