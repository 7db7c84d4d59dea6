"""Weights on their way to the device, and experts folded there as the host folds them."""

from __future__ import annotations

import sys

import fake_cupy
import networks
import numpy as np
import pytest

from accel_cli.cuda.buffers import uploaded
from accel_cli.engines.cuda_head import side_by_side
from accel_cli.engines.folded_experts import folded_together
from accel_cli.model.folding import expert_layers


@pytest.mark.parametrize("filters", [8, 7])
@pytest.mark.parametrize("experts", [1, 3])
def test_as_on_the_host(monkeypatch: pytest.MonkeyPatch, filters: int, experts: int) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    spec = networks.replace(networks.RAGGED, filters=filters, experts=experts)
    weights = networks.weights_of(spec)
    found = folded_together(weights, fake_cupy.Launcher(None))
    expected = side_by_side(weights.gate, expert_layers(weights))
    assert found.width == expected.width
    np.testing.assert_array_equal(found.gate.bias, expected.gate.bias)
    np.testing.assert_allclose(found.bias, expected.bias, atol=1e-6)
    np.testing.assert_allclose(fake_cupy.asnumpy(found.weight), expected.weight, atol=1e-5)


def test_what_is_uploaded_may_be_changed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake_cupy.module()
    module.asarray = module.cuda.alloc_pinned_memory = None  # nothing is page-locked
    monkeypatch.setitem(sys.modules, "cupy", module)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = [uploaded(values), uploaded(values[:, ::2])]
    values[:] = 0
    np.testing.assert_array_equal(fake_cupy.asnumpy(found[0]), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(fake_cupy.asnumpy(found[1]), np.arange(0, 12, 2).reshape(3, 2))
