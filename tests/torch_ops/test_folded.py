"""accel::folded_convolution on the CPU, and the table that it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from kernels.folded_tables import pooled, sliced  # noqa: E402

from accel_cli.errors import UsageError  # noqa: E402
from accel_cli.kernels.folded_layout import TableType  # noqa: E402
from accel_cli.torch import Folded, fold, folded_convolution  # noqa: E402

pytestmark = pytest.mark.extras

WORDS, DIMENSION = 20, 6


def layers(widths: tuple[int, ...], filters: int, dtype: Any = torch.float64) -> tuple[Any, list[Any]]:
    """An embedding, and a weight and a bias for each width."""
    generator = torch.Generator().manual_seed(filters)

    def random(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)

    return random(WORDS, DIMENSION), [
        (random(filters, DIMENSION, width), random(filters)) for width in widths
    ]


def products(embedding: Any, convolutions: list[Any]) -> list[np.ndarray]:
    """What each word adds at each tap: [width, words, filters]."""
    return [torch.einsum("vd,fdj->jvf", embedding, weight).double().numpy() for weight, _ in convolutions]


def ragged(lengths: list[int], dtype: Any = torch.int64) -> tuple[Any, Any]:
    """Random ids of sentences of some lengths, and their offsets."""
    offsets = torch.tensor([0, *np.cumsum(lengths)], dtype=dtype)
    ids = torch.randint(0, WORDS, (sum(lengths),), generator=torch.Generator().manual_seed(1))
    return ids.to(dtype), offsets


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(1, 40),
    st.lists(st.integers(6, 12), max_size=5),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_gives_the_features_of_the_reference(
    widths: list[int], filters: int, lengths: list[int], kind: Any
) -> None:
    embedding, convolutions = layers(tuple(widths), filters)
    ids, offsets = ragged(lengths, kind)
    biases = [bias.numpy() for _, bias in convolutions]
    expected = pooled(products(embedding, convolutions), biases, ids.numpy(), offsets.numpy())
    found = folded_convolution(ids, offsets, fold(embedding, convolutions))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_other_types_are_summed_in_fp32_and_rounded_once(dtype: Any) -> None:
    ids, offsets = ragged([5, 9, 7])
    embedding, convolutions = layers((3, 5), 70, dtype)
    biases = [bias.double().numpy() for _, bias in convolutions]
    exact = pooled(products(embedding, convolutions), biases, ids.numpy(), offsets.numpy())
    found = folded_convolution(ids, offsets, fold(embedding, convolutions))
    torch.testing.assert_close(found, torch.from_numpy(exact).to(dtype))


@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float32, TableType.FP32), (torch.float16, TableType.FP16)]
)
def test_the_table_lies_as_the_kernel_reads_it(dtype: Any, kind: TableType) -> None:
    embedding, convolutions = layers((2, 3), 70, dtype)
    rows = products(embedding, convolutions)
    expected = np.concatenate([sliced(part.astype(np.float32), kind) for part in rows])
    table = fold(embedding, convolutions)
    np.testing.assert_array_equal(table.values.flatten().numpy(), expected)
    assert table.taps.tolist() == [0, 2, 5]
    assert table.widths == (2, 3)


def test_pytorch_finds_nothing_wrong() -> None:
    for lengths in ([5, 9, 7], []):
        ids, offsets = ragged(lengths)
        table = fold(*layers((3, 5), 10))
        arguments = (ids, offsets, table.values, table.taps, table.bias, list(table.widths))
        torch.library.opcheck(torch.ops.accel.folded_convolution.default, arguments)


def test_what_is_no_number_stays_so() -> None:
    embedding, convolutions = layers((3,), 4)
    embedding[7] = float("nan")
    ids, offsets = torch.tensor([1, 2, 3, 1, 2, 7, 3, 4, 5]), torch.tensor([0, 3, 6, 9])
    found = folded_convolution(ids, offsets, fold(embedding, convolutions))
    assert found.isnan().all(dim=1).tolist() == [False, True, False]
    assert not found[[0, 2]].isnan().any()


def test_is_for_inference_only() -> None:
    ids, offsets = ragged([5, 6])
    embedding, convolutions = layers((3,), 4)
    features = folded_convolution(ids, offsets, fold(embedding.requires_grad_(), convolutions))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        features.sum().backward()


def refused(message: str, ids: Any, offsets: Any, table: Folded) -> None:
    with pytest.raises(UsageError) as caught:
        folded_convolution(ids, offsets, table)
    assert str(caught.value) == f"folded_convolution: {message}"


def test_what_it_refuses() -> None:
    table = fold(*layers((3, 5), 10))
    ids, offsets = ragged([5, 9])
    refused("ids is torch.float32, expected torch.int32 or torch.int64", ids.float(), offsets, table)
    refused("ids has shape [2, 7], 2 dimensions, expected 1", ids.view(2, 7), offsets, table)
    refused("ids is NoneType, expected a tensor", None, offsets, table)
    refused("offsets is NoneType, expected a tensor", ids, None, table)
    refused(
        "ids run from 0 to 20, the table's words from 0 to 19",
        ids * 0 + torch.tensor([0, 20] * 7),
        offsets,
        table,
    )
    refused(
        "ids run from -1 to 0, the table's words from 0 to 19",
        ids * 0 - torch.tensor([0, 1] * 7),
        offsets,
        table,
    )
    refused(
        "offsets run from 0 to 13, expected 0 to 14, the number of ids",
        ids,
        offsets - torch.tensor([0, 0, 1]),
        table,
    )
    refused("offsets is empty, expected one more than there are sentences", ids, offsets[:0], table)
    refused(
        "sentence 1 has 4 tokens, the widest convolution takes 5; fill it up",
        ids, torch.tensor([0, 10, 14]), table,
    )  # fmt: skip
    refused("offsets is on meta, but values is on cpu; move one of them", ids, offsets.to("meta"), table)


def test_what_is_no_table() -> None:
    table = fold(*layers((3, 5), 10))
    ids, offsets = ragged([5, 9])
    refused(
        "values has shape [160, 16] of torch.float32, rows of 64 bytes, expected 128; fold again after a"
        " conversion",
        ids, offsets, table._replace(values=table.values.float(), bias=table.bias.float()),
    )  # fmt: skip
    refused(
        "values has shape [159, 16] and bias [20], which are no table of the widths [3, 5]",
        ids, offsets, table._replace(values=table.values[:-1]),
    )  # fmt: skip
    refused("the widths are [], expected one or more from 1 to 30", ids, offsets, table._replace(widths=()))
    refused(
        "taps has shape [2], expected [3], because the widths are [3, 5]",
        ids, offsets, table._replace(taps=table.taps[:2]),
    )  # fmt: skip


def test_what_cannot_be_folded() -> None:
    embedding, convolutions = layers((3, 5), 10)
    with pytest.raises(UsageError, match="no convolutions; give one or more"):
        fold(embedding, [])
    with pytest.raises(UsageError, match=r"weight has shape \[10, 6, 5\], expected \[10, 5, 5\]"):
        fold(embedding[:, :5].contiguous(), convolutions[1:])
    with pytest.raises(UsageError, match=r"the widths are \[31\], expected one or more from 1 to 30"):
        fold(embedding, [(torch.zeros(1, 6, 31, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))])
