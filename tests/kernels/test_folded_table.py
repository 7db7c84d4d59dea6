import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.folded_layout import TABLE_DTYPES, Layout, TableType
from accel_cli.kernels.folded_table import folded_table
from kernels.folded_tables import scaled, sliced, stored


def run(backend: Backend, product: np.ndarray, kind: TableType) -> np.ndarray:
    width, words, filters = product.shape
    layout = Layout(kind, words, (width,), filters)
    table = backend.array(poisoned(layout.size, TABLE_DTYPES[kind]))
    lowest, scale, _ = scaled(product, np.zeros(filters, np.float32))
    arrays = [backend.array(array) for array in (product, lowest, scale)]
    folded_table(backend.run, arrays[0], table, kind, *arrays[1:])
    return backend.numpy(table)


# A slice has 64 filters, or 32 of fp32; a block 256 values.
@pytest.mark.parametrize("kind", list(TableType))
@pytest.mark.parametrize(
    ("width", "words", "filters"), [(1, 1, 1), (3, 5, 31), (2, 4, 64), (9, 7, 65), (5, 3, 130)]
)
def test_rows_in_slices(backend: Backend, kind: TableType, width: int, words: int, filters: int) -> None:
    product = random_floats(width, words, filters)
    rows, _, _ = stored(product, np.zeros(filters, np.float32), kind)
    found, expected = run(backend, product, kind), sliced(rows, kind)
    if kind == TableType.FIXED:  # a division may be off by its last bit, and so fall to the other side
        assert found.dtype == expected.dtype
        assert np.abs(found.astype(int) - expected).max() <= 1
    else:
        check_bits(found, expected)


@pytest.mark.parametrize("kind", [TableType.FP32, TableType.FP16])
def test_a_nan_stays_one(backend: Backend, kind: TableType) -> None:
    product = random_floats(3, 5, 20)
    product[1, 4, 7] = np.nan
    check_bits(run(backend, product, kind), sliced(stored(product, np.zeros(20), kind)[0], kind))


def test_the_numbers_of_a_window_never_pass_16_bits(backend: Backend) -> None:
    width = 30
    product = random_floats(width, 6, 64) * np.geomspace(1e-3, 1e3, width, dtype=np.float32)[:, None, None]
    found = run(backend, product, TableType.FIXED).reshape(6, width, 64)
    assert 65535 - 2 * width <= found.max(axis=0).astype(int).sum(axis=0).max() <= 65535
    assert found.min(axis=0).max() == 0


def test_words_that_are_all_alike(backend: Backend) -> None:
    assert not run(backend, np.full((3, 8, 2), 0.5, np.float32), TableType.FIXED).any()
