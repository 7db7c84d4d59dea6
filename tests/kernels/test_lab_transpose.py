import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.lab_transpose import Layout, lab_transpose


# The tile is 32 x 32.
@pytest.mark.parametrize(("rows", "columns", "rounds"), [(1, 1, 1), (31, 33, 3), (64, 32, 1), (33, 70, 5)])
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(Layout.SWIZZLED, id="SWIZZLED"),
        pytest.param(Layout.PLAIN, id="PLAIN", marks=pytest.mark.extras),
        pytest.param(Layout.PADDED, id="PADDED", marks=pytest.mark.extras),
    ],
)
def test_exchanges_rows_and_columns(
    backend: Backend, layout: Layout, rows: int, columns: int, rounds: int
) -> None:
    x = random_floats(rows, columns)
    y = backend.array(poisoned((columns, rows)))
    lab_transpose(backend.run, backend.array(x), y, layout, rounds)
    check_bits(backend.numpy(y), np.ascontiguousarray(x.T))


@pytest.mark.parametrize("layout", Layout, ids=lambda layout: layout.name)
def test_every_value_of_a_tile_has_a_place_of_its_own(layout: Layout) -> None:
    assert len({layout.place(row, column) for row in range(32) for column in range(32)}) == 32 * 32


def test_refuses_what_does_not_fit() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"lab_transpose y: shape \(2, 3\), expected \(3, 2\)"):
        lab_transpose(lambda *_: None, x, x, Layout.PLAIN)
    for rounds in (0, 2, -1):
        with pytest.raises(ValueError, match=f"lab_transpose: {rounds} rounds, expected an odd number"):
            lab_transpose(lambda *_: None, x, x.T.copy(), Layout.PLAIN, rounds)
