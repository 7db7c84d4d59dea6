import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.lab_copy import ORDERS, Order, lab_copy

STRIDED, OTHERS = ORDERS[1], [*ORDERS[:1], *ORDERS[2:]]


# Tiles are 8 x 1,024 values, or 32 x 256 down a column.
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (8, 1024), (9, 1025), (33, 257)])
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(STRIDED, id=STRIDED.name),
        *(pytest.param(order, id=order.name, marks=pytest.mark.extras) for order in OTHERS),
    ],
)
def test_moves_every_value_in_any_order(backend: Backend, order: Order, rows: int, columns: int) -> None:
    x = random_floats(rows, columns)
    y = backend.array(poisoned((rows, columns)))
    lab_copy(backend.run, backend.array(x), y, order)
    check_bits(backend.numpy(y), x)


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"lab_copy y: shape \(3, 2\), expected \(2, 3\)"):
        lab_copy(lambda *_: None, np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), STRIDED)
