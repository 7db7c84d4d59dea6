"""The folded convolution makes its table as it should and gives the reference's features, without a GPU."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.cuda.device import facts
from accel_cli.cuda.streams import Branches
from accel_cli.engines import folded_size
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.cuda_folded import FoldedConvolution
from accel_cli.engines.folded_size import load_bytes, table_bytes
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.values import Room
from accel_cli.kernels.folded_layout import Layout, TableType
from accel_cli.kernels.tensor_operands import Output
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.numeric import compare

pytestmark = pytest.mark.extras  # minutes of compiling

TOLERANCES = {TableType.FP32: 1e-5, TableType.FP16: 1e-3, TableType.FIXED: 1e-3}


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def features_of(
    spec: ModelSpec, batch: TokenBatch, table: TableType, output: Output = Output.FP32
) -> np.ndarray:
    """What a new FoldedConvolution leaves, on the host."""
    run = fake_cupy.Launcher(None)
    convolution = FoldedConvolution(spec, networks.weights_of(spec), table, Tiles(facts(0)), run)
    arrays = (fake_cupy.asarray(array) for array in (batch.offsets, batch.ids))
    offsets, ids = arrays
    part = Sentences(offsets, batch.offsets, ids)
    buffers = convolution.buffers(len(batch), part.tokens)
    features = Room(len(batch), spec.features, output).rows(len(batch))
    convolution(part, buffers, features, Branches(0), lambda name, value: None)
    return features.floats()


@pytest.mark.parametrize("table", list(TableType))
@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_features(name: str, table: TableType) -> None:
    spec = networks.NETWORKS[name]
    batch = networks.sentences(spec, networks.lengths_of(spec, 5))
    found = features_of(spec, batch, table)
    difference = compare(
        found,
        forward(spec, networks.weights_of(spec), batch)["features"],
        TOLERANCES[table],
    )
    assert difference.passed, str(difference)


@pytest.mark.parametrize("table", list(TableType))
def test_a_table_made_of_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch, table: TableType) -> None:
    monkeypatch.setattr(folded_size, "_ROOM", 0)
    spec = networks.replace(networks.RAGGED, filters=70)
    batch = networks.sentences(spec, [9, 5, 7])
    found = features_of(spec, batch, table)
    difference = compare(
        found,
        forward(spec, networks.weights_of(spec), batch)["features"],
        TOLERANCES[table],
    )
    assert difference.passed, str(difference)


def test_features_as_the_next_product_reads_them() -> None:
    spec = networks.SCHOOL
    batch = networks.sentences(spec, [16] * 3)
    found = features_of(spec, batch, TableType.FP32, Output.SPLIT)
    expected = forward(spec, networks.weights_of(spec), batch)["features"]
    assert compare(found, expected, 1e-5).passed


def test_what_a_table_takes() -> None:
    school = networks.replace(networks.SCHOOL, vocabulary_size=21_635, embedding=4096, filters=1024)
    assert table_bytes(school, TableType.FIXED) == 21_635 * 24 * 1024 * 2
    assert table_bytes(school, TableType.FP32) == 21_635 * 24 * 1024 * 4
    words, values = 21_635 * 4096 * 4, 256 << 20
    more = load_bytes(school, TableType.FIXED) - table_bytes(school, TableType.FIXED) - words
    assert 0.9 * values < more < 1.5 * values


@pytest.mark.parametrize("table", list(TableType))
def test_no_more_is_taken_than_was_said(monkeypatch: pytest.MonkeyPatch, table: TableType) -> None:
    taken, most, take = fake_cupy.DeviceMemory.held(), [0], fake_cupy.DeviceMemory.take

    def watched(owner: Any, size: int) -> None:
        take(owner, size)
        most[0] = max(most[0], fake_cupy.DeviceMemory.taken - taken)

    monkeypatch.setattr(fake_cupy.DeviceMemory, "take", watched)
    spec = networks.replace(networks.RAGGED, vocabulary_size=1000)
    FoldedConvolution(
        spec, networks.weights_of(spec), table, Tiles(facts(0)), lambda launch, *arguments: None
    )
    assert most[0] <= load_bytes(spec, table) + (1 << 12)


def test_widths_that_no_kernel_takes() -> None:
    spec = networks.replace(networks.RAGGED, widths=(3, 31), max_tokens=40)
    with pytest.raises(ValueError, match=r"widths \(3, 31\), expected 1 to 30"):
        Layout(TableType.FP32, 40, spec.widths, 8)
