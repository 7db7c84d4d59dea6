"""accel::fused_relu_add: ReLU, an addition and a bias in three passes over memory instead of seven."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from accel_cli.kernels.relu_add import relu_add
from accel_cli.torch.checks import check_alike, check_dimensions, check_shape
from accel_cli.torch.device import STORED, array, kernels, laid_out

_NAME = "fused_relu_add"


def fused_relu_add(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    """max(x, 0) + y + bias, contiguous: x and y [..., columns], bias [columns], of one floating-point type.

    On CUDA, float32, float16 and bfloat16 are added in fp32 and rounded once; everything else runs in
    PyTorch's own operations. Inputs that are not contiguous, or do not begin at a multiple of 16 bytes,
    are copied first. Differentiable. Raises UsageError.
    """
    result: Tensor = _operator(x, y, bias)
    return result


def _check(x: Tensor, y: Tensor, bias: Tensor) -> None:
    check_alike(_NAME, x=x, y=y, bias=bias)
    check_dimensions(_NAME, "x", x, 1)
    check_shape(_NAME, "y", y, tuple(x.shape), "x has that shape")
    check_shape(_NAME, "bias", bias, (x.shape[-1],), "x has so many columns")


def _anywhere(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    _check(x, y, bias)
    return (torch.relu(x) + y + bias).contiguous()


def _on_cuda(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    _check(x, y, bias)
    if x.dtype not in STORED or not x.numel():
        return _anywhere(x, y, bias)
    out = x.new_empty(x.shape)
    with kernels(_NAME, x) as on:
        rows, others = (array(laid_out(tensor).view(-1, x.shape[-1])) for tensor in (x, y))
        into = array(out.view(-1, x.shape[-1]))
        relu_add(on.run, rows, others, array(laid_out(bias)), into, STORED[x.dtype])
    return out


def _shape(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    _check(x, y, bias)
    return x.new_empty(x.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    (x,) = ctx.saved_tensors
    for_x, for_y, for_bias = ctx.needs_input_grad
    return (
        gradient.masked_fill(x <= 0, 0.0) if for_x else None,
        gradient if for_y else None,
        gradient.sum_to_size(x.shape[-1:]) if for_bias else None,
    )


_operator = torch.library.custom_op(
    f"accel::{_NAME}", _anywhere, mutates_args=(), schema="(Tensor x, Tensor y, Tensor bias) -> Tensor"
)
_operator.register_kernel("cuda", _on_cuda)
_operator.register_fake(_shape)
_operator.register_autograd(_backward, setup_context=_keep)
