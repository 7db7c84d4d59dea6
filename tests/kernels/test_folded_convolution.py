from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.engines.values import unpacked
from accel_cli.kernels.folded_convolution import (
    BLOCKS,
    folded_convolution,
    geometry,
    packs_features,
    spread_of,
)
from accel_cli.kernels.folded_layout import Layout, TableType
from accel_cli.kernels.tensor_operands import DTYPES, Output, halves, packed_shape_of
from kernels.folded_tables import pooled, table_of
from kernels.ragged import offsets_of
from kernels.tensors import values

pytestmark = pytest.mark.extras  # minutes of compiling

WORDS = 50
TOLERANCES = {TableType.FP32: 1e-5, TableType.FP16: 4e-3, TableType.FIXED: 2e-3}


class Network:
    """Random values of a table for some widths, and random words."""

    def __init__(self, lengths: Sequence[int], widths: Sequence[int], filters: int) -> None:
        self.products = [random_floats(width, WORDS, filters, seed=1) for width in widths]
        self.biases = [random_floats(filters, seed=width) for width in widths]
        self.offsets = offsets_of(lengths)
        self.ids = np.random.default_rng(2).integers(0, WORDS, self.offsets[-1], np.int32)

    def run(
        self,
        backend: Backend,
        kind: TableType,
        output: Output = Output.FP32,
        spread: int = 1,
        behind: int = 0,
    ) -> np.ndarray:
        columns = sum(len(bias) for bias in self.biases)
        shape = (*halves(output), len(self.offsets) - 1, columns + behind)
        features = backend.array(poisoned(shape, DTYPES[output]))
        table = table_of(backend, self.products, self.biases, kind)
        arrays = backend.array(self.ids), backend.array(self.offsets)
        folded_convolution(backend.run, *arrays, table, features, output, spread=spread)
        found = backend.numpy(features)
        untouched = poisoned((*shape[:-1], behind), DTYPES[output])
        assert np.array_equal(found[..., columns:], untouched, equal_nan=output != Output.BF16)
        return values(found[..., :columns], output)

    def expected(self) -> np.ndarray:
        return pooled(self.products, self.biases, self.ids, self.offsets)


# A warp stages 32 ids of a sentence; a thread has 8 filters, or 4 of fp32, a slice 64 or 32, or more.
@pytest.mark.parametrize("kind", list(TableType))
@pytest.mark.parametrize(
    ("lengths", "widths", "filters", "spread"),
    [
        ([16] * 9, [3, 5, 7, 9], 24, 1),
        ([9, 10, 33, 256, 12, 40, 9, 57, 31], [3, 5, 7, 9], 16, 4),
        ([1], [1], 1, 4),
        ([2, 1, 5, 64], [1], 65, 1),
        ([9, 32, 64, 65], [9, 2], 13, 2),
        ([9, 32, 64, 65], [9, 2], 64, 2),
        ([9, 32, 64, 65], [9, 2], 256, 1),
        ([30, 31, 33, 62], [30, 4], 8, 4),
    ],
)
def test_pools_the_windows_of_all_widths(
    backend: Backend,
    kind: TableType,
    lengths: Sequence[int],
    widths: Sequence[int],
    filters: int,
    spread: int,
) -> None:
    network = Network(lengths, widths, filters)
    check(network.run(backend, kind, spread=spread), network.expected(), TOLERANCES[kind])


@pytest.mark.parametrize("output", list(Output))
@pytest.mark.parametrize(("filters", "behind"), [(8, 8), (5, 3)])
def test_every_output(backend: Backend, output: Output, filters: int, behind: int) -> None:
    network = Network([9, 12], [3, 5], filters)
    tolerance = {Output.FP16: 3e-3, Output.BF16: 2e-2, Output.TF32: 3e-3}.get(output, 1e-3)
    check(network.run(backend, TableType.FIXED, output, behind=behind), network.expected(), tolerance)


@pytest.mark.parametrize(
    ("kind", "output", "filters"),
    [
        (TableType.FIXED, Output.FP16, 32),
        (TableType.FIXED, Output.BF16, 32),
        (TableType.FP32, Output.SPLIT, 64),
    ],
)
@pytest.mark.parametrize("sentences", [1, 7, 8, 9])
def test_packed_features_are_the_same_ones(
    backend: Backend, kind: TableType, output: Output, filters: int, sentences: int
) -> None:
    network = Network([9 + i for i in range(sentences)], [3, 5], filters)
    table = table_of(backend, network.products, network.biases, kind)
    shape = (*halves(output), *packed_shape_of(sentences, 2 * filters, output))
    features = backend.array(poisoned(shape, DTYPES[output]))
    arrays = backend.array(network.ids), backend.array(network.offsets)
    folded_convolution(backend.run, *arrays, table, features, output, packed=True)
    found = values(unpacked(backend.numpy(features), sentences), output)
    assert np.array_equal(found, network.run(backend, kind, output))


def test_which_features_can_be_packed() -> None:
    layout = Layout(TableType.FIXED, 10, (3, 5), 32)
    assert packs_features(layout, Output.FP16)
    assert not packs_features(layout, Output.TF32)  # eight filters are two pieces
    assert not packs_features(Layout(TableType.FIXED, 10, (3, 5), 31), Output.FP16)
    assert not packs_features(Layout(TableType.FIXED, 10, (3,), 32), Output.FP16)


@pytest.mark.parametrize("sentences", [1, 15, 16, 17, 40])
def test_sentences_of_many_lengths(backend: Backend, sentences: int) -> None:
    lengths = np.random.default_rng(3).integers(9, 60, sentences).tolist()
    network = Network(lengths, [3, 9], 8)
    check(network.run(backend, TableType.FIXED), network.expected(), TOLERANCES[TableType.FIXED])


def test_more_groups_than_a_warp_has() -> None:
    with pytest.raises(ValueError, match="2 groups for a sentence, a warp has 1"):
        geometry(1, Layout(TableType.FIXED, 100, (3,), 256), spread=2)


def test_few_sentences_are_shared_by_more_threads() -> None:
    layout = Layout(TableType.FIXED, 100, (3, 5, 7, 9), 192)
    assert [spread_of(layout, count, 132) for count in (1, 512, 16384)] == [4, 4, 1]
    wide = Layout(TableType.FIXED, 100, (3, 5, 7, 9), 1024)
    assert [spread_of(wide, count, 132) for count in (1, 512, 16384)] == [1, 1, 1]
    assert spread_of(layout, 16 * BLOCKS, 1) == 1


def test_a_split_output_is_as_exact_as_a_table_of_fp32(backend: Backend) -> None:
    network = Network([9, 12], [3, 5], 12)
    check(network.run(backend, TableType.FP32, Output.SPLIT), network.expected(), 3e-6)


def test_the_bits_depend_neither_on_the_batch_nor_on_the_spread(backend: Backend) -> None:
    lengths = [9, 40, 12, 70, 9, 16, 33]
    network = Network(lengths, [3, 9], 8)
    found = [network.run(backend, TableType.FP16, spread=spread) for spread in (1, 2, 4)]
    first, end = network.offsets[3:5]
    network.ids, network.offsets = network.ids[first:end].copy(), offsets_of([70])
    assert np.array_equal(network.run(backend, TableType.FP16)[0], found[0][3])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("kind", [TableType.FP32, TableType.FP16])
def test_a_nan_wins_and_stays_in_its_feature(backend: Backend, kind: TableType) -> None:
    network = Network([9, 12, 40], [3, 5], 10)
    network.ids[:] %= WORDS - 2
    network.ids[15], network.ids[30] = WORDS - 2, WORDS - 1
    network.products[0][1, WORDS - 2, 4] = np.nan
    network.products[1][2, WORDS - 1, 3] = -np.nan
    found, expected = network.run(backend, kind), network.expected()
    assert np.argwhere(np.isnan(found)).tolist() == [[1, 4], [2, 13]]
    there = ~np.isnan(found)
    check(found[there], expected[there], TOLERANCES[kind])


def test_a_scale_that_is_no_number_makes_a_nan_of_the_filter(backend: Backend) -> None:
    network = Network([9, 12], [3], 8)
    network.products[0][1, WORDS - 1, 4] = np.nan
    with np.errstate(invalid="ignore"):
        found = network.run(backend, TableType.FIXED)
    assert np.flatnonzero(np.isnan(found).any(axis=0)).tolist() == [4]
    assert np.isnan(found[:, 4]).all()


@pytest.mark.parametrize("kind", list(TableType))
def test_what_is_below_zero_is_zero(backend: Backend, kind: TableType) -> None:
    network = Network([9, 12], [3, 5], 8)
    network.biases = [bias - 100 for bias in network.biases]
    assert not network.run(backend, kind).any()


@pytest.mark.parametrize("kind", list(TableType))
def test_one_word_over_and_over(backend: Backend, kind: TableType) -> None:
    network = Network([16, 16], [3, 9], 8)
    network.ids[:] = WORDS - 1
    check(network.run(backend, kind, spread=1), network.expected(), TOLERANCES[kind])


def test_no_sentences(backend: Backend) -> None:
    assert Network([], [3], 8).run(backend, TableType.FIXED).shape == (0, 8)
