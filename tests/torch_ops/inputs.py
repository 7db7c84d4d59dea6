"""Inputs of the operators."""

from __future__ import annotations

from typing import Any

import torch


def relu_add_inputs(
    shape: tuple[int, ...], dtype: Any = torch.float32, *, gradients: bool = False, device: str = "cpu"
) -> tuple[Any, Any, Any]:
    """x, y, bias for fused_relu_add; no value of x is near the kink."""
    return _made(gradients, dtype, device, _far_from_zero(shape), _random(shape), _random(shape[-1:]))


def linear_inputs(
    shape: tuple[int, ...],
    dtype: Any = torch.float32,
    *,
    gradients: bool = False,
    device: str = "cpu",
    outputs: int = 6,
) -> tuple[Any, Any, Any]:
    """x, weight, bias for linear_bias_relu; about half the outputs are far below 0, the others far above."""
    columns = shape[-1]
    weight = _random((outputs, columns)) / max(columns, 1)
    bias = torch.tensor([3.0, -3.0]).repeat(outputs)[:outputs]
    return _made(gradients, dtype, device, _random(shape), weight, bias)


def split_columns(tensor: Any) -> Any:
    """The same values, every second one of a larger tensor."""
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def _made(gradients: bool, dtype: Any, device: str, *tensors: Any) -> Any:
    return tuple(tensor.to(device, dtype).detach().requires_grad_(gradients) for tensor in tensors)


def _random(shape: tuple[int, ...]) -> Any:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def _far_from_zero(shape: tuple[int, ...]) -> Any:
    values = _random(shape)
    return values + values.sign() / 4
