"""accel::linear_bias_relu: a fully connected layer and its ReLU in one kernel.

The kernels read weights packed. Each call packs them, a read and a write of the weight: kept ones would be
wrong once the weight has changed in place, which PyTorch's own counter does not always see.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.pack_taps import pack_taps
from accel_cli.kernels.pack_tiles import pack_tiles, packed_shape
from accel_cli.kernels.sgemm import sgemm
from accel_cli.kernels.tensor_gemm import tensor_gemm
from accel_cli.kernels.tensor_operands import Operands, Packed, Type, padded
from accel_cli.torch.checks import check_alike, check_dimensions, check_shape
from accel_cli.torch.device import STORED, Kernels, array, kernels, laid_out

_NAME = "linear_bias_relu"
_TENSOR_CORES = {torch.float16: Operands(Type.FP16), torch.bfloat16: Operands(Type.BF16)}


def linear_bias_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(x times weight transposed + bias, 0) [..., outputs], contiguous.

    x [..., inputs], weight [outputs, inputs] and bias [outputs] are of one floating-point type. On CUDA,
    float32 is multiplied in fp32, never in TF32, float16 and bfloat16 on tensor cores with sums in fp32;
    everything else runs in PyTorch's own operations. Differentiable, with PyTorch's products. Raises
    UsageError.
    """
    result: Tensor = _operator(x, weight, bias)
    return result


def _check(x: Tensor, weight: Tensor, bias: Tensor) -> None:
    check_alike(_NAME, x=x, weight=weight, bias=bias)
    check_dimensions(_NAME, "x", x, 1)
    check_dimensions(_NAME, "weight", weight, 2, 2)
    check_shape(_NAME, "weight", weight, (weight.shape[0], x.shape[-1]), "x has so many columns")
    check_shape(_NAME, "bias", bias, (weight.shape[0],), "weight has so many rows")


def _anywhere(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    _check(x, weight, bias)
    return torch.relu(functional.linear(x, weight, bias)).contiguous()


def _on_cuda(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    _check(x, weight, bias)
    if x.dtype not in STORED or not x.numel() or not weight.numel():
        return _anywhere(x, weight, bias)
    y = _shape(x, weight, bias)
    rows, into = x.reshape(-1, x.shape[-1]), y.view(-1, weight.shape[0])
    with kernels(_NAME, x) as on:
        if x.dtype == torch.float32:
            _in_fp32(on, rows, weight, bias, into)
        else:
            _on_tensor_cores(on, rows, weight, bias, into)
    return y


def _in_fp32(on: Kernels, x: Tensor, weight: Tensor, bias: Tensor, y: Tensor) -> None:
    (rows, inputs), outputs = x.shape, weight.shape[0]
    packed = array(x.new_empty(inputs, ceil_div(outputs, 4) * 4))
    pack_taps(on.run, array(laid_out(weight).unsqueeze(2)), packed)
    tile = on.tiles.choose(rows, outputs, inputs)
    sgemm(on.run, array(laid_out(x)), packed, array(laid_out(bias)), array(y), relu=True, tile=tile)


def _on_tensor_cores(on: Kernels, x: Tensor, weight: Tensor, bias: Tensor, y: Tensor) -> None:
    (rows, inputs), outputs = x.shape, weight.shape[0]
    operands = _TENSOR_CORES[x.dtype]
    taps = laid_out(weight.float()).unsqueeze(2)
    packed = Packed(array(x.new_empty(packed_shape(tuple(taps.shape), operands))), outputs, operands)
    pack_tiles(on.run, array(taps), packed.values, operands)
    kernel = "wgmma" if on.tiles.device.capability == (9, 0) else "mma"
    tile = on.tiles.tensor(kernel).choose(rows, outputs, operands)
    missing = padded(inputs, operands.type) - inputs
    values = laid_out(functional.pad(x, (0, missing)) if missing else x)  # padding by nothing is a copy, too
    stored = operands.stored
    tensor_gemm(
        on.run,
        array(values),
        packed,
        array(laid_out(bias.float())),
        array(y),
        tile=tile,
        output=stored,
        relu=True,
    )


def _shape(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    _check(x, weight, bias)
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, weight, y = ctx.saved_tensors
    for_x, for_weight, for_bias = ctx.needs_input_grad
    passed = gradient.masked_fill(y <= 0, 0.0)
    return (
        passed @ weight if for_x else None,
        _rows(passed).T @ _rows(x) if for_weight else None,
        passed.sum_to_size(weight.shape[:1]) if for_bias else None,
    )


def _rows(values: Tensor) -> Tensor:
    return values.unsqueeze(0) if values.dim() == 1 else values.flatten(0, -2)


_operator = torch.library.custom_op(
    f"accel::{_NAME}", _anywhere, mutates_args=(), schema="(Tensor x, Tensor weight, Tensor bias) -> Tensor"
)
_operator.register_kernel("cuda", _on_cuda)
_operator.register_fake(_shape)
_operator.register_autograd(_backward, setup_context=_keep)
