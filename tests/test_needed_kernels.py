"""What a plan is said to launch is what its engine launches, for any batch and any device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import pytest
from fake_streams import Stream

from accel_cli.batches import TextBatch
from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines import cuda
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.needed import needed_launches
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.engines.tuned import Product, Tuned, Winner, own_file
from accel_cli.kernels import mma_gemm, sgemm, wgmma_gemm
from accel_cli.kernels.base import Launch
from accel_cli.kernels.sgemm_tile import USUAL, Tile
from accel_cli.kernels.text_common import Count
from accel_cli.model.config import ModelSpec, PlanSpec, load_config
from accel_cli.model.weights import Weights
from accel_cli.text.rows import TextFormatter
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import SPECIAL

Variant = tuple[str, tuple[tuple[str, int], ...]]
PRODUCTS = {kernel.KERNEL.name for kernel in (sgemm, mma_gemm, wgmma_gemm)}
TILE = {
    *("BM", "BN", "BK", "TM", "TN", "STAGES"),
    *(name for tile in (mma_gemm.DEFAULT, wgmma_gemm.DEFAULT) for name, _ in tile.constants()),
}
CHOSEN = {**dict.fromkeys(PRODUCTS, TILE), "folded_convolution": {"SPREAD", "BLOCKS"}}
HOPPER = (9, 0)


class Noting(fake_cupy.Launcher):
    """Runs nothing, and notes all variants that it was to run."""

    seen: set[Variant]

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        launch.kernel.pack(arguments)
        Noting.seen.add((launch.kernel.name, launch.defines))


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A device's properties, which a test may change; what engines launch is only noted."""
    properties = dict(fake_cupy.PROPERTIES)
    module = fake_cupy.module()
    module.cuda.runtime.getDeviceProperties = lambda index: properties
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(cuda, "Launcher", Noting)
    Noting.seen = set()
    return properties


def launched(
    spec: ModelSpec, plan: Plan, counts: tuple[int, ...], *, embeddings: bool = False
) -> set[Variant]:
    """What the engine of a plan launches while it is loaded, and for batches of some sizes."""
    Noting.seen = set()
    weights = networks.weights_of(spec)
    engine = CudaEngine(spec, weights, plan, embeddings=embeddings)
    for count in counts:
        engine.submit(networks.sentences(spec, networks.lengths_of(spec, count)))
        if embeddings:
            for length in {spec.min_tokens, spec.max_tokens}:
                engine.submit(networks.sentences(spec, [length] * count).embedded(weights.embedding))
    return Noting.seen


def needed(spec: ModelSpec, plan: Plan, capability: tuple[int, int] = HOPPER, **keys: bool) -> set[Variant]:
    found = needed_launches(spec, plan, capability, **keys)
    variants = {(launch.kernel.name, launch.defines) for launch in found}
    assert len(variants) == len(found)
    return {(name, defines) for name, defines in variants if not name.startswith("text_")}


def without_tiles(variants: set[Variant]) -> set[Variant]:
    """Variants without what a batch and a device decide."""
    return {
        (name, tuple(one for one in defines if one[0] not in CHOSEN.get(name, ())))
        for name, defines in variants
    }


def check(
    device: dict[str, Any],
    spec: ModelSpec,
    capability: tuple[int, int],
    compiled_for: tuple[int, int],
    step: int = 1,
) -> None:
    """The same variants, but for tiles and the like that the batches and devices tried here do not take."""
    device["major"], device["minor"] = capability
    plans = available_plans(spec, PlanSpec(batch=64, streams=1), "cuda:0", capability=capability)
    assert len(plans) > 20
    for plan in plans[::step]:
        expected = needed(spec, plan, compiled_for)
        for processors in (1, 132):
            device["multiProcessorCount"] = processors
            found = launched(spec, plan, (1, 2, 64))
            assert found <= expected, plan
            assert without_tiles(found) == without_tiles(expected), plan


def test_it_is_what_engines_launch(device: dict[str, Any]) -> None:
    check(device, networks.SCHOOL, HOPPER, HOPPER, step=11)


@pytest.mark.extras
@pytest.mark.parametrize("name", ["ragged", "school", "smallest"])
@pytest.mark.parametrize(
    ("capability", "compiled_for"), [((8, 0), (8, 0)), ((8, 6), (8, 0)), (HOPPER, HOPPER), ((10, 3), (10, 0))]
)
def test_it_is_what_all_engines_launch(
    device: dict[str, Any], name: str, capability: tuple[int, int], compiled_for: tuple[int, int]
) -> None:
    check(device, networks.NETWORKS[name], capability, compiled_for)


@pytest.mark.extras
@pytest.mark.parametrize("capability", [(8, 0), HOPPER])
def test_shortcuts(device: dict[str, Any], capability: tuple[int, int]) -> None:
    check(device, networks.RESIDUAL, capability, capability)


@pytest.mark.parametrize("spec", [networks.SCHOOL, networks.RAGGED], ids=["of one length", "of several"])
def test_embeddings_as_input(spec: ModelSpec) -> None:
    for convolution in ("direct", "im2col", "implicit", "toomcook"):
        wanted = PlanSpec(precision="fp32", convolution=convolution, batch=8, streams=1)
        plan = make_plan(spec, wanted, "cuda:0", embeddings=True)
        expected = needed(spec, plan, embeddings=True)
        found = launched(spec, plan, (1, 8), embeddings=True)
        assert found <= expected
        assert without_tiles(found) == without_tiles(expected)


class Counting(Noting):
    """The same, and there are `lines` lines in every text."""

    lines = 0

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        super().__call__(launch, *arguments)
        if launch.kernel.name == "text_sums" and arguments[-1] == Count.LINES:
            Stream.current().enqueue(partial(arguments[1].__setitem__, Count.LINES, self.lines))


def of_text(spec: ModelSpec, weights: Weights, plan: Plan) -> set[Variant]:
    """What is launched for blocks of a file, for lists of lines, and for lines whose words the host found."""
    Noting.seen = set()
    engine = CudaEngine(spec, weights, plan)
    words = {word: place for place, word in enumerate(SPECIAL)}
    tokenizer = Tokenizer(words, spec.min_tokens, spec.max_tokens)
    formatter = TextFormatter("tsv", ("label", "score"), spec.labels)
    with engine.text_slots(tokenizer, formatter, 16_000) as slots:
        for lines in (1, plan.batch, 2 * plan.batch + 1):
            Counting.lines = lines
            for _ in range(3):  # as it is, captured, replayed
                slots[0].rows(2 * lines)
                reader = engine.text_reader(tokenizer)
                assert reader is not None
                reader.submit(TextBatch.of([b"a"] * lines))
            engine.submit(networks.sentences(spec, networks.lengths_of(spec, lines)))
    return Noting.seen


@pytest.mark.parametrize("network", ["the shipped one", "ragged"])
def test_text_that_is_read_on_the_device(
    device: dict[str, Any], monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    monkeypatch.setattr(cuda, "Launcher", Counting)
    spec = networks.NETWORKS.get(network) or load_config("sentiment").model
    plan = make_plan(spec, PlanSpec(batch=64, streams=1), "cuda:0")
    assert (plan.convolution, plan.precision, plan.gemm) == ("folded", "fp16", "wgmma")
    expected = {(launch.kernel.name, launch.defines) for launch in needed_launches(spec, plan, HOPPER)}
    weights = networks.weights_of(spec)
    for processors in (1, 132):
        device["multiProcessorCount"] = processors
        found = of_text(spec, weights, plan)
        assert found <= expected
        assert without_tiles(found) == without_tiles(expected)


def tiles_of(variants: set[Variant], kernel: str = "sgemm") -> dict[Variant, set[tuple[int, ...]]]:
    """The tiles of each kind of product."""
    found: dict[Variant, set[tuple[int, ...]]] = {}
    for name, defines in variants:
        if name == kernel:
            (kind,) = without_tiles({(name, defines)})
            found.setdefault(kind, set()).add(tuple(value for key, value in defines if key in TILE))
    return found


def test_every_way_to_share_sentences() -> None:
    plan = make_plan(networks.RAGGED, PlanSpec(), "cuda:0")
    found = [dict(defines) for name, defines in needed(networks.RAGGED, plan) if name == "folded_convolution"]
    assert sorted(one["SPREAD"] for one in found) == [1, 2, 4]


def numbers(tile: Tile) -> tuple[int, ...]:
    return tuple(vars(tile).values())


def test_every_usual_tile_that_a_device_takes() -> None:
    plan = make_plan(networks.SCHOOL, PlanSpec(gemm="sgemm", convolution="implicit"), "cuda:0")
    kinds = tiles_of(needed(networks.SCHOOL, plan))
    assert len(kinds) == 2  # windows of words, and experts
    assert all(tiles == {numbers(tile) for tile in USUAL} for tiles in kinds.values())


def test_every_tile_of_tensor_cores() -> None:
    plan = make_plan(networks.SCHOOL, PlanSpec(precision="fp16"), "cuda:0")
    kinds = tiles_of(needed(networks.SCHOOL, plan), "wgmma_gemm")
    assert kinds
    assert all(len(tiles) > 1 for tiles in kinds.values())


def test_tiles_that_tuning_found_for_a_product(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    spec, tile = networks.SCHOOL, Tile(64, 32, 8, 8, 4, 3)
    experts = Product(100, spec.experts * spec.fully_connected[0], spec.features, kind="experts")
    file = own_file(DeviceFacts(0, "Some GPU", HOPPER, 1, 0, 0, 0, 0))
    file.parent.mkdir(parents=True)
    file.write_text(Tuned("Some GPU", (Winner(experts, tile, 1.0),)).text())
    (file.parent / "broken.yaml").write_text("{")
    wanted = PlanSpec(gemm="sgemm", convolution="implicit", experts="folded")
    plan = make_plan(spec, wanted, "cuda:0")
    kinds = tiles_of(needed(spec, plan))
    having = [kind for kind, tiles in kinds.items() if numbers(tile) in tiles]
    assert [dict(defines)["EXPERTS"] for _, defines in having] == [4]


def test_cupy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert needed(networks.SCHOOL, make_plan(networks.SCHOOL, PlanSpec(), "cuda:0"))
