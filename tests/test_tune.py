"""Searching tiles, batch and streams, without a GPU: kernels run on the CPU, seconds are made up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cupy
import numpy as np
import pytest
from conftest import TINY

from accel_cli.batches import TokenBatch
from accel_cli.bench import measure, tile_search, tune
from accel_cli.bench.ahead import CompileAhead
from accel_cli.bench.measure import Timing
from accel_cli.bench.tile_search import TileSearch
from accel_cli.commands import tune as tune_command
from accel_cli.cuda import device as device_module
from accel_cli.cuda.device import facts
from accel_cli.cuda.errors import DeviceLost
from accel_cli.engines import cuda, planner, tiles
from accel_cli.engines.open import engine_for
from accel_cli.engines.tuned import Product, Sizes, Tuned, Winner, load_tuned, own_file
from accel_cli.errors import AccelError, DeviceError, OutputError, UsageError
from accel_cli.kernels.base import Launch
from accel_cli.kernels.sgemm import geometry, pack, sgemm, sgemm_windows
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile
from accel_cli.model.config import Config, load_config
from accel_cli.model.generate import obtain_weights

TALL, FLAT = Tile(64, 32, 16, 4, 4, 3), Tile(32, 64, 16, 4, 4, 3)
DEEP = replace(FLAT, depth=32)
FASTER = {DEFAULT: 3.0, TALL: 2.0, FLAT: 1.0, DEEP: 0.1}


def tile_of(launch: Launch) -> Tile:
    constants = dict(launch.defines)
    return Tile(*(constants[name] for name in ("BM", "BN", "BK", "TM", "TN", "STAGES")))


class Compiler:
    """Nothing is compiled; some tiles cannot be."""

    def __init__(self, *bad: Tile) -> None:
        self.bad, self.started = bad, []

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def start(self, launches: Iterable[Launch]) -> None:
        self.started += map(tile_of, launches)

    def wait(self, launch: Launch) -> None:
        if tile_of(launch) in self.bad:
            raise DeviceError("kernel sgemm does not compile")


class Device:
    """A launcher that knows which tile came last; `spoil` makes one bit of a tile's result wrong."""

    def __init__(self, spoil: Tile | None = None) -> None:
        self.spoil, self.last, self.timed = spoil, DEFAULT, []
        self._run = fake_cupy.Launcher(None)

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        self._run(launch, *arguments)
        if launch.kernel.name == "sgemm":
            self.last = tile_of(launch)
            if self.last == self.spoil:
                fake_cupy.Stream.current().enqueue(lambda: spoilt(arguments[7]))

    def times(self, calls: Sequence[Callable[[], None]], repeats: int) -> Timing:
        calls[0]()
        self.timed.append(self.last)
        return Timing((FASTER[self.last],) * repeats)


def spoilt(y: Any) -> None:
    y.reshape(-1).view(np.uint32)[-1] += 1


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(tile_search, "candidates", lambda capability: [DEFAULT, TALL, FLAT, DEEP])


def searched(
    monkeypatch: pytest.MonkeyPatch, device: Device, *bad: Tile, seconds: float = 100.0
) -> tuple[TileSearch, list[str]]:
    told: list[str] = []
    monkeypatch.setattr(tile_search, "device_times", device.times)
    search = TileSearch(device, facts(0), Compiler(*bad), told.append)
    search.begin(seconds)
    return search, told


A, B = (
    np.random.default_rng(seed).standard_normal(shape, np.float32)
    for seed, shape in ((1, (70, 20)), (2, (36, 20)))
)
PRODUCT = Product(70, 36, 20)


def multiply(run: Any) -> np.ndarray:
    y = fake_cupy.empty((70, 36), np.float32)
    sgemm(run, fake_cupy.asarray(A), fake_cupy.asarray(pack(B)), None, y, tile=DEFAULT)
    return fake_cupy.asnumpy(y)


def test_the_fastest_tile_wins_and_the_product_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, told = searched(monkeypatch, device)
    np.testing.assert_array_equal(multiply(search), multiply(device))
    found = search.found[PRODUCT]
    assert (found.winner.tile, found.before.tile) == (FLAT, DEFAULT)
    assert found.winner.tflops == pytest.approx(PRODUCT.flop / 1e12)
    assert DEEP not in device.timed
    assert told == [str(found)]
    assert "70x36x20: [32, 64, 16, 4, 4, 3] at 0.0 TFLOP/s, +200.0 %" in told[0]
    seen = len(device.timed)
    multiply(search)  # known by now
    assert len(device.timed) == seen


def test_before_it_begins_it_only_takes_note(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr(tile_search, "device_times", lambda *_: pytest.fail("timed"))
    search = TileSearch(device, facts(0), Compiler(), print)
    multiply(search)
    multiply(search)
    assert search.products == [PRODUCT]
    assert search.found == {}


def test_a_tile_with_another_result_is_refused_by_name_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(spoil=FLAT)
    search, told = searched(monkeypatch, device)
    found = multiply(search)
    assert search.found[PRODUCT].winner.tile == TALL
    assert FLAT not in device.timed
    assert told[0] == (
        "70x36x20: the tile [32, 64, 16, 4, 4, 3] is refused: its result differs from that of the tile in use"
    )
    np.testing.assert_array_equal(found, multiply(Device()))


def test_a_tile_that_does_not_compile_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    search, told = searched(monkeypatch, Device(), FLAT, TALL)
    multiply(search)
    assert search.found[PRODUCT].winner.tile == DEFAULT
    assert [line.partition("refused: ")[2] for line in told[:2]] == ["kernel sgemm does not compile"] * 2


def test_a_tile_that_breaks_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, _ = searched(monkeypatch, device)
    run = device._run

    def launch(launch: Launch, *arguments: Any) -> None:
        if tile_of(launch) == FLAT:
            raise fake_cupy.CUDADriverError("CUDA_ERROR_ILLEGAL_ADDRESS")
        run(launch, *arguments)

    device._run = launch
    with pytest.raises(
        DeviceLost, match=r"while trying the tile \[32, 64, 16, 4, 4, 3\]: CUDA_ERROR_ILLEGAL"
    ):
        multiply(search)


def test_a_tile_no_faster_than_noise_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FASTER, DEFAULT, 1.004)
    monkeypatch.setitem(FASTER, TALL, 1.1)
    search, _ = searched(monkeypatch, Device())
    multiply(search)
    assert search.found[PRODUCT].winner.tile == DEFAULT


def test_without_time_the_tile_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, _ = searched(monkeypatch, device, seconds=0.0)
    multiply(search)
    assert search.found[PRODUCT].winner.tile == DEFAULT
    assert set(device.timed) == {DEFAULT}


def test_a_maximum_keeps_what_lies_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    x = fake_cupy.asarray(random.standard_normal((40, 12), np.float32))
    places = [
        fake_cupy.asarray(np.arange(38, dtype=np.int32)),
        fake_cupy.asarray(np.arange(38, dtype=np.int32) // 19),
    ]
    packed = fake_cupy.asarray(random.standard_normal((36, 8), np.float32))
    bias = fake_cupy.asarray(random.standard_normal(8, np.float32))

    def features(run: Any) -> np.ndarray:
        y = fake_cupy.asarray(
            np.concatenate([np.full((2, 5), 7.0), np.zeros((2, 8))], axis=1, dtype=np.float32)
        )
        sgemm_windows(run, x, *places, packed, bias, y, 5, tile=DEFAULT)
        return fake_cupy.asnumpy(y)

    device = Device(spoil=FLAT)
    search, told = searched(monkeypatch, device)
    np.testing.assert_array_equal(features(search), features(Device()))
    assert search.found[Product(38, 8, 36)].winner.tile == TALL
    assert "refused" in told[0]


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
    return load_config(tmp_path / "network.yaml")


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
    return tune.tune(config, "cuda:0", 1000.0, told.append, lambda architecture: Compiler()), told


def test_what_was_found_is_what_the_engine_then_takes(
    network: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    # batches 12, 8, 16 with 3 streams; then 1 and 2 streams with the fastest batch
    found, told = tuned(network, monkeypatch, Device(), 0.5, 0.25, 0.75, 0.3, 0.2)
    [sizes], [winner] = found.plans, found.products
    assert (sizes.batch, sizes.streams, sizes.sentences_per_s) == (8, 2, 120.0)
    assert (winner.product, winner.tile) == (Product(8, 20, 20), FLAT)
    assert "batch 16, streams 3: 32 sentences/s" in told
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


def test_a_network_that_computes_something_else_is_not_timed(
    network: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = fake_cupy._argmax
    monkeypatch.setattr(fake_cupy, "_linear", lambda *values: values[3].fill(1.0))
    monkeypatch.setattr(fake_cupy, "_argmax", lambda x, *rest: (x.__iadd__(1), right(x, *rest)))
    with pytest.raises(AccelError, match=r"not timed, because device=cuda:0 .* computes something else"):
        tuned(network, monkeypatch, Device())


@pytest.mark.parametrize(
    ("device", "gemm", "message"),
    [
        ("cpu", "sgemm", "--device cpu: there is nothing to tune on a CPU; name a GPU with --device cuda:N"),
        ("cuda:0", "naive", "the plan's gemm is naive, which has no tiles to choose; say `gemm: sgemm`"),
    ],
)
def test_nothing_to_tune(network: Config, device: str, gemm: str, message: str) -> None:
    config = replace(network, plan=network.plan.overridden(gemm=gemm))
    with pytest.raises(UsageError, match=message):
        tune.tune(config, device, 1.0, print)


class TestCommand:
    FOUND = Tuned("Fake H200", (Winner(Product(1, 2, 3), FLAT, 5.0),), (Sizes("net", "direct", 8, 2, 99.0),))

    @pytest.fixture(autouse=True)
    def _found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device_module, "missing", lambda: None)
        monkeypatch.setattr(tune_command, "tune", lambda *_: self.FOUND)

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

    def test_a_file_that_is_something_else_is_left_alone(self, network: Config) -> None:
        before = network.path.read_bytes()
        with pytest.raises(OutputError, match="what is in that file would be lost: name another one"):
            self.call(network, "--output", str(network.path))
        assert network.path.read_bytes() == before

    def test_a_cpu(self, network: Config) -> None:
        with pytest.raises(UsageError, match="nothing to tune on a CPU; name a GPU with --device cuda:N"):
            tune_command.command.main(
                ["--config", str(network.path), "--device", "cpu"], standalone_mode=False
            )


def test_kernels_are_compiled_in_other_processes() -> None:
    with CompileAhead("sm_00") as ahead:
        launch = geometry(1, 1)
        ahead.start([launch])
        with pytest.raises(DeviceError):  # no CuPy, or no such architecture
            ahead.wait(launch)
