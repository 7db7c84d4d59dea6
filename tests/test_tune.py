"""`accel tune`: batch, streams and tiles of a network, and the file they go to, without a GPU."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import fake_cupy
import numpy as np
import pytest
import tuning
from conftest import TINY
from tuning import FLAT, TALL, Compiler, Device

from accel_cli.batches import TokenBatch
from accel_cli.bench import measure, tile_search, tune
from accel_cli.bench.measure import Timing
from accel_cli.commands import tune as tune_command
from accel_cli.cuda import device as device_module
from accel_cli.cuda.device import facts
from accel_cli.engines import cuda, planner, tiles
from accel_cli.engines.open import engine_for
from accel_cli.engines.tuned import Kind, Product, Sizes, Tuned, Winner, load_tuned, own_file
from accel_cli.errors import AccelError, DeviceError, OutputError, UsageError
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile
from accel_cli.model.config import Config, load_config
from accel_cli.model.generate import obtain_weights


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tuning.fake_gpu(monkeypatch, tmp_path / "cache")


@pytest.fixture
def network(tmp_path: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A network with one product by sgemm, in batches of 12 unless others are faster."""
    text = TINY.replace("vocabulary.txt", str(tiny_path.parent / "vocabulary.txt"))
    text = text.replace("[7, 2]", "[20, 2]").replace("experts: 3", "experts: 1")
    plan = "plan: {gemm: sgemm, convolution: direct, epilogue: separate, experts: folded}\n"
    (tmp_path / "network.yaml").write_text(text + plan)
    monkeypatch.setattr(planner, "_BATCH", {"cuda": 12})
    monkeypatch.setattr(tune, "BATCHES", (8, 16))
    monkeypatch.setattr(tune, "STREAMS", (1, 2))
    monkeypatch.setattr(tune, "SENTENCES", 24)
    monkeypatch.setattr(tiles, "USUAL", {DEFAULT: 1.0})
    monkeypatch.setattr(fake_cupy, "_sgemm", sgemm, raising=False)
    monkeypatch.setattr(fake_cupy, "_skinny", skinny, raising=False)
    return load_config(tmp_path / "network.yaml")


# In numpy: real tiles are compared where one is searched for.
def skinny(a: Any, weight: Any, bias: Any, y: Any, *rest: Any) -> None:
    y[:] = a.view(np.float32) @ weight.T + bias


def sgemm(
    a: Any, starts: Any, ids: Any, b: Any, bias: Any, gate: Any, owners: Any, y: Any, *sizes: int
) -> None:
    y[:] = (a @ b)[:, : y.shape[1]] + bias


def sgemm_windows(
    a: Any, starts: Any, ids: Any, b: Any, bias: Any, gate: Any, owners: Any, y: Any, *sizes: int
) -> None:
    """Windows of embedded words or, where `ids` are others than `a` once more, of words of a table."""
    rows, columns, depth, _, _, column, dimension = sizes[:7]
    if not dimension:
        return sgemm(a, starts, ids, b, bias, gate, owners, y)
    words = a if np.shares_memory(a, ids) else a[ids]
    windows = np.stack([words.reshape(-1)[start * dimension :][:depth] for start in starts[:rows]])
    largest = y[:, column : column + columns]
    np.maximum.at(largest, owners[:rows], windows @ b[:, :columns] + bias)


def tuned(
    config: Config, monkeypatch: pytest.MonkeyPatch, device: Device, *seconds: float
) -> tuple[Tuned, list[str]]:
    """What tuning finds if the clock says so many seconds, one measurement after the other."""
    told: list[str] = []
    clock = iter(seconds)
    monkeypatch.setattr(measure, "in_turns", lambda runs, repeats: {"": Timing((next(clock),))})
    monkeypatch.setattr(cuda, "Launcher", lambda *_, **__: device)
    monkeypatch.setattr(tune, "Launcher", lambda *_, **__: device)
    monkeypatch.setattr(tile_search, "device_times", device.times)
    kept: list[Tuned] = []
    found = tune.tune(config, "cuda:0", 1000.0, told.append, kept.append, lambda architecture: Compiler())
    assert functools.reduce(Tuned.joined, kept) == found
    return found, told


def test_what_was_found_is_what_the_engine_then_takes(
    network: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    # batches 12, 8, 16 with 4 streams; then 1 and 2 streams with the fastest batch
    found, told = tuned(network, monkeypatch, Device(), 0.5, 0.25, 0.75, 0.3, 0.2)
    [sizes], [winner] = found.plans, found.products
    assert (sizes.batch, sizes.streams, sizes.sentences_per_s) == (8, 2, 240.0)
    assert (winner.product, winner.tile) == (Product(8, 20, 20), FLAT)
    assert "batch 16, streams 4: 64 sentences/s" in told
    path = own_file(facts(0))
    path.parent.mkdir(parents=True)
    path.write_text(found.text())
    device = Device()
    monkeypatch.setattr(cuda, "Launcher", lambda *_, **__: device)
    plan = planner.make_plan(network.model, network.plan, "cuda:0")
    engine = engine_for(network.model, obtain_weights(network.model), plan)
    engine.submit(TokenBatch.from_rows(np.ones((8, 9), np.int32))).result()
    assert device.last == FLAT


def test_a_batch_and_streams_that_are_given_stay(network: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(network, plan=network.plan.overridden(batch=4, streams=1))
    found, _ = tuned(given, monkeypatch, Device())
    assert found.plans == ()
    assert [one.product.rows for one in found.products] == [4]
    given = replace(network, plan=network.plan.overridden(batch=4))
    found, _ = tuned(given, monkeypatch, Device(), 3.0, 1.0, 2.0)
    assert [(plan.batch, plan.streams) for plan in found.plans] == [(4, 1)]


def test_windows_of_ids_and_of_embeddings_have_tiles_of_their_own(
    network: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (tmp_path / "network.yaml").read_text()
    for old, new in (
        ("length: ragged\n  max_tokens: 24", "length: 9"),
        ("embedding: 12", "embedding: 16"),
        ("direct, epilogue: separate", "implicit, batch: 4, streams: 1"),
    ):
        text = text.replace(old, new)
    (tmp_path / "network.yaml").write_text(text)
    monkeypatch.setattr(fake_cupy, "_sgemm", sgemm_windows)
    asked, choose = set[str](), tiles.Tiles.choose

    def noted(self: tiles.Tiles, *sizes: int, kind: Kind = "plain") -> Tile:
        asked.add(kind)
        return choose(self, *sizes, kind=kind)

    monkeypatch.setattr(tiles.Tiles, "choose", noted)
    found, _ = tuned(load_config(tmp_path / "network.yaml"), monkeypatch, Device())
    kinds = [(one.product.kind, one.product.depth) for one in found.products]
    assert kinds == [("ids", 80), ("ids", 48), ("experts", 20), ("windows", 80), ("windows", 48)]
    assert asked == {"ids", "experts", "windows"}


def test_a_plan_without_tiles_has_a_batch_and_streams(
    network: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(network, plan=network.plan.overridden(gemm="naive"))
    monkeypatch.setattr(tune, "BATCHES", (8, 16, 32))  # the last one leaves fewer than two batches
    found, told = tuned(plain, monkeypatch, Device(), 0.5, 0.25, 0.75, 0.3, 0.2)
    assert found.products == ()
    assert [(plan.batch, plan.streams) for plan in found.plans] == [(8, 2)]
    assert not any("compiling" in line for line in told)


def test_a_network_that_computes_something_else_is_not_timed(
    network: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = fake_cupy._argmax
    monkeypatch.setattr(fake_cupy, "_linear", lambda *values: values[3].fill(1.0))
    monkeypatch.setattr(fake_cupy, "_argmax", lambda x, *rest: (x.__iadd__(1), right(x, *rest)))
    with pytest.raises(AccelError, match=r"not timed, because device=cuda:0 .* computes something else"):
        tuned(network, monkeypatch, Device())


def test_nothing_to_tune(network: Config) -> None:
    config = replace(network, plan=network.plan.overridden(gemm="naive", batch=4, streams=1))
    with pytest.raises(UsageError, match="the plan's gemm is naive, which has no tiles to choose; leave one"):
        tune.tune(config, "cuda:0", 1.0, print)


class TestCommand:
    FOUND = Tuned("Fake H200", (Winner(Product(1, 2, 3), FLAT, 5.0),), (Sizes("net", "direct", 8, 2, 99.0),))

    @pytest.fixture(autouse=True)
    def _found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "missing", lambda: None)
        monkeypatch.setattr(tune_command, "tune", lambda *values: values[4](self.FOUND) or self.FOUND)

    def call(self, config: Config, *arguments: str) -> None:
        line = ["--config", str(config.path), "--device", "cuda:0", *arguments]
        tune_command.command.main(line, standalone_mode=False)

    def test_it_adds_to_what_is_known(self, network: Config, capsys: pytest.CaptureFixture[str]) -> None:
        path = own_file(facts(0))
        path.parent.mkdir(parents=True)
        old = Winner(Product(9, 9, 9), TALL, 4.0)
        path.write_text(Tuned("Fake H200", (old, Winner(Product(1, 2, 3), TALL, 4.0))).text())
        self.call(network)
        known = load_tuned(path, facts(0))
        assert set(known.products) == {old, *self.FOUND.products}
        assert known.plans == self.FOUND.plans
        out, error = capsys.readouterr()
        assert out == "--batch 8 --streams 2: 99 sentences/s\n1x2x3: [32, 64, 16, 4, 4, 3] 5.0 TFLOP/s\n"
        assert f"wrote {path}" in error

    def test_its_own_damaged_file_is_made_anew(
        self, network: Config, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = own_file(facts(0))
        path.parent.mkdir(parents=True)
        path.write_text("device: [")
        self.call(network)
        assert load_tuned(path, facts(0)) == self.FOUND
        assert "not valid YAML" in (error := capsys.readouterr().err)
        assert "this file is made anew" in error

    def test_another_file(self, network: Config, tmp_path: Path) -> None:
        self.call(network, "--output", str(tmp_path / "here.yaml"))
        assert load_tuned(tmp_path / "here.yaml", facts(0)) == self.FOUND
        assert not own_file(facts(0)).exists()

    @pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, DeviceError])
    def test_whatever_ends_it_early_costs_no_finding(
        self, network: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: type[BaseException]
    ) -> None:
        path = tmp_path / "here.yaml"

        def search(config: Config, place: str, seconds: float, tell: Any, keep: Any) -> Tuned:
            for found in (Tuned("Fake H200", (), self.FOUND.plans), Tuned("Fake H200", self.FOUND.products)):
                keep(found)
                assert [entry.name for entry in tmp_path.glob("*here*")] == ["here.yaml"]
            raise ending

        monkeypatch.setattr(tune_command, "tune", search)
        with pytest.raises((ending, click.Abort)):
            self.call(network, "--output", str(path))
        assert load_tuned(path, facts(0)) == self.FOUND

    def test_a_file_that_is_something_else_is_left_alone(self, network: Config) -> None:
        before = network.path.read_bytes()
        with pytest.raises(OutputError, match="what is in that file would be lost: name another one"):
            self.call(network, "--output", str(network.path))
        assert network.path.read_bytes() == before

    def test_a_cpu(self, network: Config) -> None:
        with pytest.raises(UsageError, match="--device cpu: accel tune needs a GPU; name one with --device"):
            self.call(network, "--device", "cpu")

    def test_without_a_gpu_it_says_why(self, network: Config, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "missing", lambda: "no driver")
        with pytest.raises(DeviceError, match=r"^accel tune needs a GPU, and no driver$"):
            self.call(network, "--device", "auto")
