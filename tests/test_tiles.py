"""Which tile serves a product: tuned files, the user's before the shipped ones, else a rule."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import networks
import pytest
from conftest import ours

from accel_cli import resources
from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines import open as engines
from accel_cli.engines import tuned
from accel_cli.engines.tensor_products import OPERANDS
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.tuned import Product, Sizes, Tuned, Winner, load_tuned, own_file, shipped_file
from accel_cli.errors import AccelWarning, ConfigError
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.sgemm_tile import DEFAULT, STEP, USUAL, Tile, candidates, shared_limit
from accel_cli.kernels.tensor_tile import Source
from accel_cli.kernels.wgmma_gemm import LARGE, PAIR
from accel_cli.model.config import Config, PlanSpec

DEVICE = DeviceFacts(0, "Fancy GPU (80 GB)", (9, 0), 132, 80 << 30, 50 << 20, 13000, 13000)
SMALL, WIDE, FLAT = (Tile(64, 64, 16, 8, 8, 2), Tile(128, 256, 16, 8, 16, 3), Tile(32, 64, 16, 4, 4, 3))


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(resources, "CONFIGS", tmp_path / "configs")


def winner(rows: int, columns: int, depth: int, tile: Tile, batch: int = 1) -> Winner:
    return Winner(Product(rows, columns, depth, batch), tile, 12.5)


def leave(path: Path, *winners: Winner, device: str = DEVICE.name) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Tuned(device, winners).text())


def chosen(*product: int) -> Tile:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Tiles(DEVICE).choose(*product)


def test_the_files_are_named_after_the_device(tmp_path: Path) -> None:
    assert own_file(DEVICE) == tmp_path / "cache" / "tuned" / "fancy-gpu-80-gb.yaml"
    assert shipped_file(DEVICE) == tmp_path / "configs" / "tuned" / "fancy-gpu-80-gb.yaml"


def test_the_nearest_rows_by_their_ratio() -> None:
    leave(own_file(DEVICE), winner(100, 64, 256, SMALL), winner(1000, 64, 256, WIDE))
    assert chosen(100, 64, 256) == SMALL
    assert chosen(300, 64, 256) == SMALL  # 3 times, against 3.3
    assert chosen(330, 64, 256) == WIDE
    assert chosen(4000, 64, 256) == WIDE
    assert chosen(25, 64, 256) == SMALL


def test_rows_out_of_reach_and_other_products_are_served_by_the_rule() -> None:
    usual = Tiles(DEVICE).choose(1000, 64, 256)
    assert usual not in (SMALL, WIDE)
    leave(own_file(DEVICE), winner(100, 64, 256, WIDE), winner(1000, 64, 256, WIDE, batch=2))
    assert chosen(1000, 64, 256) == usual
    assert chosen(1000, 64, 256, 2) == WIDE
    assert chosen(100, 68, 256) in USUAL
    assert chosen(100, 64, 255) in USUAL


def test_a_tile_serves_products_of_its_own_kind() -> None:
    found = Winner(Product(100, 64, 256, kind="windows"), WIDE, 12.5)
    leave(own_file(DEVICE), found, winner(100, 64, 256, SMALL))
    tiles = Tiles(DEVICE)
    assert tiles.choose(100, 64, 256) == SMALL
    assert tiles.choose(100, 64, 256, kind="windows") == WIDE
    assert tiles.choose(100, 64, 256, kind="experts") in USUAL


def test_the_users_own_findings_come_before_the_shipped_ones() -> None:
    leave(shipped_file(DEVICE), winner(100, 64, 256, SMALL), winner(100, 32, 256, FLAT))
    assert chosen(100, 64, 256) == SMALL
    leave(own_file(DEVICE), winner(200, 64, 256, WIDE))
    assert chosen(100, 64, 256) == WIDE
    assert chosen(100, 32, 256) == FLAT


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("device: [", "not valid YAML"),
        ("- 1", "must be a mapping"),
        ("device: Fancy GPU (80 GB)\ntiles: []", "unknown key tiles"),
        ("device: Other GPU", "must be 'Fancy GPU .80 GB.', the one that is here, got 'Other GPU'"),
        ("device: Fancy GPU (80 GB)\nproducts: 3", "products must be a list, got 3"),
        ("device: Fancy GPU (80 GB)\nproducts: [3]", r"products\[0\] must be a mapping"),
        (
            "device: Fancy GPU (80 GB)\nproducts: [{rows: 1, columns: 2, depth: 3, kind: round}]",
            r"products\[0\]\.kind must be one of plain, windows, ids, experts, got 'round'",
        ),
        ("device: Fancy GPU (80 GB)\nplans: [{network: a}]", r"plans\[0\]\.batch must be a whole number"),
    ],
)
def test_a_damaged_file_is_named_and_left_out(text: str, cause: str) -> None:
    usual = chosen(100, 64, 256)
    path = own_file(DEVICE)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    leave(shipped_file(DEVICE), winner(3, 3, 3, FLAT))
    with pytest.warns(AccelWarning, match=cause) as caught:
        tiles = Tiles(DEVICE)
    [message] = ours(caught)
    assert str(path) in message
    assert "run `accel tune` to make it anew, or remove it" in message
    assert tiles.choose(100, 64, 256) == usual
    assert tiles.choose(3, 3, 3) == FLAT


@pytest.mark.parametrize(
    "tile",
    [
        (128, 128, 16, 8, 16),
        (128, 128, 32, 8, 16, 2),  # legal, but 304, the shipped model's embedding, is no multiple of 32
        (128, 128, 16, 8, 16, 30),
        (48, 64, 16, 4, 4, 3),
    ],
)
def test_a_tile_that_would_not_work_is_refused(tile: tuple[int, ...]) -> None:
    path = own_file(DEVICE)
    leave(path, winner(1, 2, 3, DEFAULT))
    path.write_text(path.read_text().replace("[128, 128, 8, 16, 8, 3]", str(list(tile))))
    with pytest.raises(ConfigError, match=r"products\[0\]\.tile must be one of six numbers that this device"):
        load_tuned(path, DEVICE)


@pytest.mark.parametrize("speed", ["-1", "fast", ".nan", "true"])
def test_a_speed_that_is_none(speed: str) -> None:
    path = own_file(DEVICE)
    leave(path, winner(1, 2, 3, DEFAULT))
    path.write_text(path.read_text().replace("12.5", speed))
    with pytest.raises(ConfigError, match=r"tflops must be a number of 0 or more"):
        load_tuned(path, DEVICE)


def test_every_tile_that_may_be_chosen_can_gather_words() -> None:
    for tile in USUAL:
        assert STEP % tile.depth == 0
        for capability in ((8, 0), (8, 6), (9, 0), (12, 0)):
            assert tile.legal(shared_limit(capability)), tile
            assert tile in candidates(capability), tile


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (9, 0), (12, 0)])
@pytest.mark.parametrize("precision", OPERANDS)
def test_every_device_has_a_tile_for_every_precision(precision: str, capability: tuple[int, int]) -> None:
    device = replace(DEVICE, capability=capability)
    for kernel in ("mma", "wgmma") if capability == (9, 0) else ("mma",):
        for source in (Source.MATRIX, Source.WINDOWS, Source.IDS):
            assert TensorTiles(kernel, device).legal(OPERANDS[precision], source)


def test_a_file_says_all_that_was_found() -> None:
    sizes = Sizes(tuned.network(networks.SCHOOL), "toomcook", 1024, 2, 31234.0)
    windows = Winner(Product(4, 5, 6, kind="windows"), FLAT, 1.5)
    found = Tuned(DEVICE.name, (winner(9, 8, 7, WIDE, 6), windows, winner(1, 2, 3, SMALL)), (sizes,))
    path = own_file(DEVICE)
    path.parent.mkdir(parents=True)
    path.write_text(found.text())
    assert load_tuned(path, DEVICE) == found
    assert (
        "{rows: 9, columns: 8, depth: 7, batch: 6, kind: plain, tile: [128, 256, 16, 8, 16, 3], tflops: 12.5}"
        in found.text()
    )
    assert load_tuned(path, DEVICE).sizes(networks.SCHOOL, "toomcook") == sizes
    assert found.sizes(networks.SCHOOL, "implicit") is None
    assert found.sizes(networks.RAGGED, "toomcook") is None
    path.write_text(Tuned(DEVICE.name).text())
    assert load_tuned(path, DEVICE) == Tuned(DEVICE.name)


def test_the_batch_and_streams_of_a_plan_are_those_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "choose", lambda device: device)
    monkeypatch.setattr(engines, "facts", lambda index: DEVICE)
    monkeypatch.setattr(engines, "free_on", lambda device: DEVICE.memory)
    config = Config("school", networks.NOWHERE, networks.SCHOOL, PlanSpec(convolution="implicit"))
    usual = engines.plan_for(config, "cuda:0")
    path = own_file(DEVICE)
    leave(path)
    sizes = Sizes(tuned.network(networks.SCHOOL), usual.convolution, 777, 5, 1.0)
    path.write_text(Tuned(DEVICE.name, (), (sizes,)).text())
    found = engines.plan_for(config, "cuda:0")
    assert (found.batch, found.streams) == (777, 5)
    assert found.reasons["batch"] == found.reasons["streams"] == "tuned for this device"
    assert replace(found, batch=usual.batch, streams=usual.streams) == usual
    asked = engines.plan_for(replace(config, plan=config.plan.overridden(batch=9)), "cuda:0")
    assert (asked.batch, asked.streams, asked.reasons["batch"]) == (9, 5, "asked for")
    assert engines.plan_for(config, "cuda:0", embeddings=True).batch == usual.batch
    other = replace(config, plan=PlanSpec(convolution="direct"))
    assert engines.plan_for(other, "cuda:0").batch == usual.batch


def test_newer_findings_take_the_place_of_older_ones_of_the_same_product() -> None:
    old = Tuned(DEVICE.name, (winner(1, 2, 3, SMALL), winner(4, 5, 6, SMALL)))
    joined = old.joined(Tuned(DEVICE.name, (winner(1, 2, 3, WIDE),)))
    assert joined.products == (winner(1, 2, 3, WIDE), winner(4, 5, 6, SMALL))


def test_untuned_large_products_take_large_tiles_and_small_ones_more_blocks() -> None:
    for product in ((28672, 1024, 12288, 1), (2048, 4096, 4096, 18)):
        tile = chosen(*product)
        assert tile.rows * tile.columns >= DEFAULT.rows * DEFAULT.columns, product
    for product in ((448, 1024, 12288), (2048, 512, 1024), (32, 512, 1024), (1, 1, 1), (0, 8, 8)):
        tile = chosen(*product)
        assert tile.rows * tile.columns < DEFAULT.rows * DEFAULT.columns, product
    assert chosen(333, 261, 77).threads == chosen(32, 1024, 2048).threads == 64  # the smallest blocks
    few, many = (
        ceil_div(2048, tile.rows) * ceil_div(512, tile.columns) for tile in (DEFAULT, chosen(2048, 512, 1024))
    )
    assert few < DEVICE.processors <= many


def test_blocks_that_are_left_alone_on_a_processor_count_for_less() -> None:
    tiles, blocks = Tiles(DEVICE), DEVICE.processors
    assert DEFAULT.resident(shared_limit(DEVICE.capability)) == 2
    one, two, three, four = (
        tiles.predicted(DEFAULT, Product(DEFAULT.rows * blocks * count, DEFAULT.columns, 64))
        for count in (1, 2, 3, 4)
    )
    assert two == four == 1.0  # two at once, and two again
    assert one < three < two
    assert three == pytest.approx(3 / (2 + 1 / one))
    assert tiles.predicted(DEFAULT, Product(DEFAULT.rows * (blocks + 1), DEFAULT.columns, 64)) < 0.52
    lone = Tile(64, 64, 16, 8, 8, 3)  # two warps leave two of four schedulers idle
    assert tiles.predicted(lone, Product(64 * blocks, 64, 64)) < 0.5


def windows(sentences: int) -> list[Product]:
    """Those of the school's network, of one sentence's 16 words."""
    return [Product(sentences * (17 - width), 1024, width * 4096) for width in (3, 5, 7, 9)]


def test_products_side_by_side_share_the_fastest_tile_though_alone_it_would_leave_processors_idle() -> None:
    tiles, operands = TensorTiles("wgmma", DEVICE), OPERANDS["fp16"]
    alone = {tiles.choose(one.rows, one.columns, operands, Source.IDS).columns for one in windows(512)}
    assert len(alone) > 1
    together = tiles.choose_for_all(windows(512), operands, Source.IDS)
    assert together == tiles.choose(1 << 20, 4096, operands, Source.IDS)


def test_few_sentences_side_by_side_take_smaller_tiles() -> None:
    tiles, operands = TensorTiles("wgmma", DEVICE), OPERANDS["fp16"]
    sizes = [tiles.choose_for_all(windows(count), operands, Source.IDS) for count in (1, 32, 64, 4096)]
    areas = [tile.rows * tile.columns for tile in sizes]
    assert areas == sorted(areas)
    assert areas[0] < areas[1] < areas[-1]


def test_blocks_of_a_cluster_count_though_one_has_no_rows() -> None:
    tiles, operands = TensorTiles("wgmma", DEVICE), OPERANDS["fp16"]
    assert tiles.choose(512, 132 * 256, operands) == replace(PAIR, blocks=132)
    assert tiles.choose(384, 132 * 256, operands) == replace(LARGE, blocks=132)


def test_blocks_that_make_one_tile_each_share_nothing() -> None:
    tiles, operands = TensorTiles("wgmma", DEVICE), OPERANDS["fp16"]
    assert tiles.choose(4096, 1024, operands) == replace(LARGE, blocks=132)
    assert tiles.choose(8192, 1024, operands) == replace(PAIR, blocks=132)


def test_no_windows_at_all_have_a_tile() -> None:
    none = [replace(one, rows=0) for one in windows(1)]
    assert TensorTiles("mma", DEVICE).choose_for_all(none, OPERANDS["tf32"], Source.IDS)
