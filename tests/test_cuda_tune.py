"""Tuning and measuring products on a real device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Accel, needs_gpu

from accel_cli.bench import gemm
from accel_cli.cuda.device import facts
from accel_cli.engines.tuned import Product, load_tuned, own_file

pytestmark = [pytest.mark.gpu, needs_gpu]


@pytest.mark.parametrize(("plan", "tiles"), [("", False), ("gemm: sgemm, convolution: implicit", True)])
def test_tuning_leaves_a_file_that_is_read_again(
    accel: Accel, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, tiles: bool
) -> None:
    config = tmp_path / "planned.yaml"
    config.write_text(f"extends: {tiny_path}\nplan: {{{plan}}}\n")
    own = {"ACCEL_CACHE_DIR": str(tmp_path), "ACCEL_CONFIG": str(config)}
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    done = accel("tune", "--device", "cuda:0", "--seconds", "60", environment=own)
    assert done.returncode == 0, done.stderr.decode()
    assert "refused" not in done.stderr.decode()
    found = load_tuned(own_file(facts(0)), facts(0))
    assert bool(found.products) == tiles
    assert len(found.plans) == 1
    shown = accel("info", "--plan", "--device", "cuda:0", environment=own)
    assert f"batch: {found.plans[0].batch}" in shown.stdout.decode()


def test_products_are_right_and_measured() -> None:
    products = (Product(333, 261, 77), Product(2048, 2, 512), Product(130, 64, 40, batch=3))
    report = gemm.run("cuda:0", 3, lambda message: None, products)
    assert {row.product for row in report.rows} == set(products)
    assert all(row.flop_rate > 0 for row in report.rows)
    json.loads(report.text())
