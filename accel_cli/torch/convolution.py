"""accel::folded_convolution: embedding, convolutions, ReLU and the maximum over time as sums of table rows.

For inference only. A gradient to the table would be as large as the table, which has a row for every word and
every tap; what is trained are the embedding and the filters that it was folded from: see network.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from accel_cli.errors import UsageError
from accel_cli.kernels import folded_convolution as kernel
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.folded_layout import LINE, WIDEST, Layout, Table, TableType, row_bytes
from accel_cli.kernels.tensor_operands import Output
from accel_cli.torch.checks import check_alike, check_device, check_dimensions, check_shape
from accel_cli.torch.device import array, kernels, laid_out

_NAME = "folded_convolution"
_TYPES = {torch.float32: (TableType.FP32, Output.FP32), torch.float16: (TableType.FP16, Output.FP16)}


class Folded(NamedTuple):
    """Convolutions over an embedding as a table of what each word adds to a window at each of its places.

    `values` [rows, filters in 128 to 512 bytes]; `taps` int32 [widths + 1], the columns of all widths before
    each one; `bias` [widths * filters], of the type of `values`; `widths` one a convolution.
    """

    values: Tensor
    taps: Tensor
    bias: Tensor
    widths: tuple[int, ...]


def fold(embedding: Tensor, convolutions: Sequence[tuple[Tensor, Tensor]]) -> Folded:
    """The table of an embedding [words, dimension] and of convolutions, each a weight and a bias.

    A weight is [filters, dimension, width], a bias [filters]. All have one floating-point type, which is the
    table's too. Raises UsageError.
    """
    what = "fold"
    check_dimensions(what, "embedding", embedding, 2, 2)
    if not convolutions:
        raise UsageError(f"{what}: no convolutions; give one or more")
    filters = convolutions[0][0].shape[0]
    parts = []
    for weight, bias in convolutions:
        check_alike(what, embedding=embedding, weight=weight, bias=bias)
        check_dimensions(what, "weight", weight, 3, 3)
        wanted = (filters, embedding.shape[1], weight.shape[2])
        check_shape(
            what, "weight", weight, wanted, "embedding has such rows, and all widths have as many filters"
        )
        check_shape(what, "bias", bias, (filters,), "weight has so many filters")
        parts.append(_sliced(torch.einsum("vd,fdj->vjf", embedding, weight)))
    widths = tuple(int(weight.shape[2]) for weight, _ in convolutions)
    _check_widths(what, widths)
    taps = torch.tensor([0, *widths], device=embedding.device).cumsum(0).to(torch.int32)
    return Folded(torch.cat(parts), taps, torch.cat([bias for _, bias in convolutions]), widths)


def _sliced(product: Tensor) -> Tensor:
    """product [words, width, filters] as [slices, words, width, slice], flat but for the slice."""
    words, width, filters = product.shape
    size = row_bytes(filters, product.element_size()) // product.element_size()
    slices = ceil_div(filters, size)
    product = functional.pad(product, (0, slices * size - filters))
    return product.view(words, width, slices, size).permute(2, 0, 1, 3).reshape(-1, size)


def folded_convolution(ids: Tensor, offsets: Tensor, table: Folded) -> Tensor:
    """The features [sentences, widths * filters]: what a convolution of each width, ReLU and maximum give.

    Sentence i is the words ids[offsets[i]] to ids[offsets[i + 1] - 1], at least as many as the widest
    convolution takes. ids [tokens] and offsets [sentences + 1] are int32 or int64; offsets begin with 0 and
    end with the number of tokens. On a CPU all of this is checked. On CUDA ids and offsets are trusted, since
    to look at them would be to wait for the device: one that is out of range reads memory that is not the
    table's. Sums are fp32, or float64 if the table is. Not differentiable. Raises UsageError.
    """
    result: Tensor = _operator(ids, offsets, table.values, table.taps, table.bias, table.widths)
    return result


def _check(
    ids: Tensor, offsets: Tensor, values: Tensor, taps: Tensor, bias: Tensor, widths: Sequence[int]
) -> None:
    for name, tensor in (("ids", ids), ("offsets", offsets)):
        check_dimensions(_NAME, name, tensor, 1, 1)
        check_device(_NAME, "values", values, name, tensor)
        if tensor.dtype not in (torch.int32, torch.int64):
            raise UsageError(f"{_NAME}: {name} is {tensor.dtype}, expected torch.int32 or torch.int64")
    if offsets.shape[0] < 1:
        raise UsageError(f"{_NAME}: offsets is empty, expected one more than there are sentences")
    check_alike(_NAME, values=values, bias=bias)
    check_device(_NAME, "values", values, "taps", taps)
    _check_widths(_NAME, widths)
    check_shape(_NAME, "taps", taps, (len(widths) + 1,), f"the widths are {list(widths)}")
    check_dimensions(_NAME, "values", values, 2, 2)
    size = values.element_size()
    expected = row_bytes(bias.shape[0] // len(widths), size) if bias.dim() == 1 else LINE
    if values.shape[1] * size != expected:
        raise UsageError(
            f"{_NAME}: values has shape {list(values.shape)} of {values.dtype}, rows of"
            f" {values.shape[1] * size} bytes, expected {expected}; fold again after a conversion"
        )
    if (
        bias.dim() != 1
        or bias.shape[0] % len(widths)
        or values.shape[0] % _rows_of_a_word(values, bias, widths)
    ):
        raise UsageError(
            f"{_NAME}: values has shape {list(values.shape)} and bias {list(bias.shape)}, which are no table"
            f" of the widths {list(widths)}"
        )


def _check_widths(what: str, widths: Sequence[int]) -> None:
    if not widths or not 1 <= min(widths) <= max(widths) <= WIDEST:
        raise UsageError(f"{what}: the widths are {list(widths)}, expected one or more from 1 to {WIDEST}")


def _rows_of_a_word(values: Tensor, bias: Tensor, widths: Sequence[int]) -> int:
    """Rows of the table for each word of the vocabulary: slices times taps."""
    return max(1, ceil_div(bias.shape[0] // len(widths), values.shape[1])) * sum(widths)


def _anywhere(
    ids: Tensor, offsets: Tensor, values: Tensor, taps: Tensor, bias: Tensor, widths: Sequence[int]
) -> Tensor:
    _check(ids, offsets, values, taps, bias, widths)
    words = values.shape[0] // _rows_of_a_word(values, bias, widths)
    lengths = _checked_lengths(ids, offsets, words, max(widths))
    sentences, filters = len(lengths), bias.shape[0] // len(widths)
    owners = torch.repeat_interleave(torch.arange(sentences, device=ids.device), lengths)
    kind = torch.float64 if values.dtype == torch.float64 else torch.float32
    features, start = bias.new_zeros((sentences, bias.shape[0]), dtype=kind), 0
    for number, width in enumerate(widths):
        rows = ceil_div(filters, values.shape[1]) * words * width
        table = values[start : start + rows].view(-1, words, width, values.shape[1])
        start += rows
        count = max(len(ids) - width + 1, 0)
        sums = torch.zeros((), dtype=kind, device=ids.device)
        for tap in range(width):
            sums = sums + table[:, ids[tap : tap + count], tap].to(kind)
        columns = slice(number * filters, (number + 1) * filters)
        found = sums.transpose(0, 1).flatten(1)[:, :filters] + bias[columns].to(kind)
        whole = owners[:count] == owners[width - 1 :]  # windows that lie in one sentence
        index = owners[:count][whole].unsqueeze(1).expand(-1, filters)
        features[:, columns] = features[:, columns].scatter_reduce(0, index, found[whole], "amax")
    return features.to(values.dtype)


def _checked_lengths(ids: Tensor, offsets: Tensor, words: int, widest: int) -> Tensor:
    """Tokens of each sentence, or UsageError."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < words:
        raise UsageError(
            f"{_NAME}: ids run from {int(ids.min())} to {int(ids.max())}, the table's words from 0 to"
            f" {words - 1}"
        )
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(ids):
        raise UsageError(
            f"{_NAME}: offsets run from {int(offsets[0])} to {int(offsets[-1])}, expected 0 to {len(ids)},"
            " the number of ids"
        )
    lengths = offsets.diff()
    if len(lengths) and int(lengths.min()) < widest:
        short = int(lengths.argmin())
        raise UsageError(
            f"{_NAME}: sentence {short} has {int(lengths[short])} tokens, the widest convolution takes"
            f" {widest}; fill it up"
        )
    return lengths


def _on_cuda(
    ids: Tensor, offsets: Tensor, values: Tensor, taps: Tensor, bias: Tensor, widths: Sequence[int]
) -> Tensor:
    _check(ids, offsets, values, taps, bias, widths)
    features = _shape(ids, offsets, values, taps, bias, widths)
    if values.dtype not in _TYPES or not features.numel() or not values.numel():
        return _anywhere(ids, offsets, values, taps, bias, widths)
    kind, output = _TYPES[values.dtype]
    words = values.shape[0] // _rows_of_a_word(values, bias, widths)
    layout = Layout(kind, words, tuple(widths), bias.shape[0] // len(widths))
    with kernels(_NAME, values) as on:
        after = array(laid_out(bias.float()))
        table = Table(layout, array(laid_out(values.flatten())), array(laid_out(taps)), after, scale=after)
        words_of, ends = (array(tensor.to(torch.int32).contiguous()) for tensor in (ids, offsets))
        kernel.folded_convolution(on.run, words_of, ends, table, array(features), output)
    return features


def _shape(
    ids: Tensor, offsets: Tensor, values: Tensor, taps: Tensor, bias: Tensor, widths: Sequence[int]
) -> Tensor:
    _check(ids, offsets, values, taps, bias, widths)
    return values.new_empty((offsets.shape[0] - 1, bias.shape[0]))


_operator = torch.library.custom_op(
    f"accel::{_NAME}",
    _anywhere,
    mutates_args=(),
    schema="(Tensor ids, Tensor offsets, Tensor values, Tensor taps, Tensor bias, int[] widths) -> Tensor",
)
_operator.register_kernel("cuda", _on_cuda)
_operator.register_fake(_shape)
