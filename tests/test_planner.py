"""Plans: the preferred choice, what was asked for, and a clear refusal of what is not there."""

from __future__ import annotations

import sys
from dataclasses import replace

import fake_cupy
import networks
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.cuda import device
from accel_cli.engines import planner
from accel_cli.engines.base import Plan
from accel_cli.engines.folded_size import load_bytes, table_of
from accel_cli.engines.open import plan_for
from accel_cli.engines.planner import ABILITIES, available_plans, make_plan
from accel_cli.errors import ConfigError
from accel_cli.model.config import CHOICES, Config, PlanSpec

RAGGED, SCHOOL = networks.RAGGED, networks.SCHOOL
HUGE = replace(SCHOOL, vocabulary_size=21_635, embedding=4096, filters=1024)
DEVICES = ["cpu", "cuda:0", "cuda:3"]


def test_what_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "cores", lambda: 5)
    assert make_plan(RAGGED, PlanSpec(), "cpu") == Plan("cpu", "fp32", "folded", "separate", 4096, 5)
    assert make_plan(SCHOOL, PlanSpec(), "cpu") == Plan("cpu", "fp32", "folded", "folded", 4096, 5)
    rest = {"precision": "fp16", "convolution": "folded", "gemm": "wgmma", "epilogue": "fused"}
    rest |= {"copies": "pinned", "allocation": "once", "order": "in_turn"}
    ragged = {"experts": "separate", "launch": "graph", "batch": 32768, "streams": 4}
    school = {**ragged, "experts": "folded"}
    lengths = make_plan(RAGGED, PlanSpec(convolution="implicit"), "cuda:1")  # which its launches depend on
    assert lengths.launch == "stream"
    assert make_plan(RAGGED, PlanSpec(), "cuda:1") == Plan("cuda:1", **rest, **ragged)
    assert make_plan(SCHOOL, PlanSpec(), "cuda:1") == Plan("cuda:1", **rest, **school)


TENSOR = {"gemm": "wgmma", "convolution": "implicit", "epilogue": "fused", "order": "side_by_side"}
OF_A_PRECISION = [
    ("fp16", (9, 0), TENSOR),
    ("tf32", (8, 0), {**TENSOR, "gemm": "mma"}),
    ("bf16", (10, 0), {**TENSOR, "gemm": "mma"}),
    ("fp32-split", (9, 0), {**TENSOR, "convolution": "toomcook", "order": "in_turn"}),
    ("fp32", (9, 0), {**TENSOR, "gemm": "sgemm", "convolution": "toomcook", "order": "in_turn"}),
]


@pytest.mark.parametrize(("precision", "capability", "expected"), OF_A_PRECISION)
def test_what_is_preferred_where_no_table_fits(
    precision: str, capability: tuple[int, int], expected: dict[str, str]
) -> None:
    plan = make_plan(SCHOOL, PlanSpec(precision=precision), "cuda:0", capability=capability, free=0)
    assert {key: getattr(plan, key) for key in expected} == expected
    assert plan.batch == 2048


ALONE = [
    ("gemm: sgemm", "precision=fp32 convolution=folded"),
    ("gemm: mma", "precision=fp16 convolution=folded"),
    ("convolution: toomcook", "precision=fp32-split convolution=toomcook experts=folded gemm=wgmma"),
    ("convolution: direct", "precision=fp32 convolution=direct experts=folded gemm=sgemm"),
    ("epilogue: separate", "precision=fp32 convolution=folded experts=folded gemm=sgemm"),
    ("order: side_by_side", "precision=fp16 convolution=implicit"),
    ("allocation: per_call", "allocation=per_call order=in_turn launch=stream"),
]


@pytest.mark.parametrize(("asked", "expected"), ALONE)
def test_the_rest_of_a_plan_goes_together_with_what_is_asked_for(asked: str, expected: str) -> None:
    plan = make_plan(SCHOOL, PlanSpec(**dict([asked.split(": ")])), "cuda:0")
    assert expected in str(plan)


@given(
    st.sampled_from(
        [plan for spec in (RAGGED, SCHOOL) for plan in available_plans(spec, PlanSpec(), "cuda:0")]
    ),
    st.sets(st.sampled_from(["precision", "convolution", "experts", "gemm", "epilogue", "order", "launch"])),
    st.sampled_from([None, 0]),
)
def test_any_part_of_a_plan_can_be_asked_for_alone(plan: Plan, keys: set[str], free: int | None) -> None:
    """What is left open never takes something that stands in the way of what is asked for."""
    if free == 0 and plan.convolution == "folded":
        keys = keys - {"convolution"}
    asked = {key: getattr(plan, key) for key in keys}
    found = make_plan(SCHOOL, PlanSpec(**asked), "cuda:0", free=free)
    assert {key: getattr(found, key) for key in keys} == asked


def test_wgmma_is_refused_on_other_devices() -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(SCHOOL, PlanSpec(precision="fp16", gemm="wgmma"), "cuda:0", capability=(8, 6))
    assert str(caught.value) == (
        "gemm: wgmma is not available on cuda of capability 8.6, it needs 9.0; available: mma"
    )


def test_tensor_cores_weigh_at_most_four_experts() -> None:
    with pytest.raises(
        ConfigError, match="precision: tf32 is not available on cuda for 5 experts, more than 4"
    ):
        make_plan(replace(SCHOOL, experts=5), PlanSpec(precision="tf32"), "cuda:0")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("first", "experts"), [(31, "folded"), (32, "separate"), (33, "separate")])
def test_experts_fold_where_that_saves_work(device: str, first: int, experts: str) -> None:
    spec = replace(SCHOOL, fully_connected=(first, 8, 2))
    plan = make_plan(spec, PlanSpec(), device)
    assert plan.experts == experts
    assert (
        plan.reasons["experts"]
        == {
            "folded": "the fewest operations, the same function",
            "separate": f"fc.0, {first} wide, is not narrower than the experts, 32 wide",
        }[experts]
    )
    asked = make_plan(spec, PlanSpec(experts="folded"), device)
    assert (asked.experts, asked.reasons["experts"]) == ("folded", "asked for")


@pytest.mark.parametrize(("precision", "next_best"), [("fp32", "toomcook"), ("fp16", "implicit")])
def test_a_table_that_does_not_fit_is_not_made(precision: str, next_best: str) -> None:
    wanted = PlanSpec(precision=precision)
    need = load_bytes(HUGE, table_of(precision))
    for free in (None, need, need + 1):
        plan = make_plan(HUGE, wanted, "cuda:0", free=free)
        assert plan.convolution == "folded"
        assert plan.reasons["convolution"] == "the fewest operations, the same function"
    plan = make_plan(HUGE, wanted, "cuda:0", free=need - 10**7)
    assert plan.convolution == next_best
    numbers = f"{need / 1e9:.2f} GB to make, and {need / 1e9 - 0.01:.2f} GB are free"
    assert plan.reasons["convolution"].endswith(f"; folded: the table takes {numbers}")
    assert make_plan(HUGE, PlanSpec(), "cpu").convolution == "folded"


def test_a_table_that_does_not_fit_is_refused() -> None:
    wanted = PlanSpec(precision="fp16", convolution="folded")
    with pytest.raises(ConfigError) as caught:
        make_plan(HUGE, wanted, "cuda:0", free=500_000_000)
    assert str(caught.value) == (
        "convolution: folded is not available on cuda: the table takes 1.78 GB to make, and 0.50 GB are free;"
        " available: implicit"
    )
    other = PlanSpec(convolution="implicit")
    assert make_plan(HUGE, other, "cuda:0", free=0) == make_plan(HUGE, other, "cuda:0")
    plans = available_plans(HUGE, PlanSpec(), "cuda:0", free=500_000_000)
    assert "folded" not in {plan.convolution for plan in plans}


@pytest.mark.parametrize("free", [500_000_000, 2_000_000_000])
def test_the_memory_that_is_free_comes_from_the_device(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    cupy = fake_cupy.module()
    cupy.cuda.runtime.memGetInfo = lambda: (free - 1000, 1 << 40)
    cupy.get_default_memory_pool().free_bytes = lambda: 1000
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(device, "missing", lambda: None)
    config = Config("huge", networks.NOWHERE, HUGE, PlanSpec(precision="fp16", convolution="folded"))
    if free > 1_780_000_000:
        assert plan_for(config, "cuda:1").convolution == "folded"
    else:
        with pytest.raises(ConfigError, match=r"takes 1.78 GB to make, and 0.50 GB are free"):
            plan_for(config, "cuda:1")


def test_embeddings_are_never_folded() -> None:
    assert make_plan(RAGGED, PlanSpec(), "cpu", embeddings=True).convolution == "im2col"
    with pytest.raises(ConfigError) as caught:
        make_plan(RAGGED, PlanSpec(convolution="folded"), "cpu", embeddings=True)
    words = "convolution: folded is not available on cpu with embeddings as input; available: im2col"
    assert str(caught.value) == words


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("key", [key for key in CHOICES if key != "device"])
def test_every_choice_is_taken_or_refused_by_name(device: str, key: str) -> None:
    kind = device.partition(":")[0]
    able = ABILITIES[kind].get(key, ())
    for choice in CHOICES[key]:
        wanted = replace(PlanSpec(), **{key: choice})
        if choice in able:
            plan = make_plan(RAGGED, wanted, device)
            assert getattr(plan, key) == choice
            assert plan.reasons[key] == "asked for"
        else:
            with pytest.raises(ConfigError) as caught:
                make_plan(RAGGED, wanted, device)
            assert f"{key}: {choice} is not available on {kind}" in str(caught.value)
            assert ("available: " if able else "leave it out") in str(caught.value)


WITHOUT = [
    ("convolution: implicit", "gemm: naive", "folded, im2col, direct"),
    ("epilogue: fused", "gemm: tiled", "separate"),
    ("order: side_by_side", "convolution: im2col", "in_turn"),
    ("launch: graph", "allocation: per_call", "stream"),
    ("gemm: mma", "precision: fp32", "sgemm, tiled, naive"),
    ("gemm: sgemm", "precision: bf16", "wgmma, mma"),
    ("convolution: toomcook", "precision: fp16", "folded, implicit"),
    ("convolution: im2col", "precision: fp32-split", "folded, implicit, toomcook"),
    ("epilogue: separate", "precision: tf32", "fused"),
]


@pytest.mark.parametrize(("refused", "other", "able"), WITHOUT)
def test_what_takes_another_choice_is_refused_without_it(refused: str, other: str, able: str) -> None:
    asked = PlanSpec(**dict(choice.split(": ") for choice in (refused, other)))
    with pytest.raises(ConfigError) as caught:
        make_plan(RAGGED, asked, "cuda:0")
    assert str(caught.value) == f"{refused} is not available on cuda with {other}; available: {able}"


def test_a_folded_convolution_has_at_most_thirty_taps() -> None:
    wide = replace(RAGGED, widths=(3, 31), max_tokens=40)
    with pytest.raises(ConfigError, match="folded is not available on cuda for a convolution over 31 tokens"):
        make_plan(wide, PlanSpec(convolution="folded"), "cuda:0")
    assert make_plan(wide, PlanSpec(), "cuda:0").convolution == "implicit"


def test_toom_cook_needs_room_for_the_widest_kernel() -> None:
    wide = replace(SCHOOL, widths=(3, 17), length=40, max_tokens=40)
    with pytest.raises(ConfigError, match="toomcook is not available on cuda for a convolution over 17"):
        make_plan(wide, PlanSpec(convolution="toomcook"), "cuda:0")
    plan = make_plan(wide, PlanSpec(precision="fp32"), "cuda:0", free=0)
    assert (plan.convolution, plan.gemm) == ("implicit", "sgemm")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("embeddings", [True, False])
def test_every_choice_has_its_reason(device: str, embeddings: bool) -> None:
    plan = make_plan(RAGGED, PlanSpec(), device, embeddings=embeddings)
    assert set(plan.reasons) == set(plan.keys()) - {"device"}
    assert all(plan.reasons.values())


def test_sizes_asked_for() -> None:
    plan = make_plan(RAGGED, PlanSpec(batch=7, streams=2), "cpu")
    assert (plan.batch, plan.streams) == (7, 2)
    assert plan.reasons["batch"] == plan.reasons["streams"] == "asked for"


@pytest.mark.parametrize(("length", "batch"), [(16, 32768), (64, 32768), (1024, 2048), (1 << 20, 2)])
def test_long_sentences_are_fewer_at_once(length: int, batch: int) -> None:
    spec = replace(SCHOOL, length=length, max_tokens=length)
    assert make_plan(spec, PlanSpec(), "cuda:0").batch == batch


def test_a_plan_prints_itself() -> None:
    plan = make_plan(RAGGED, PlanSpec(batch=7, streams=2), "cpu")
    assert str(plan) == "device=cpu precision=fp32 convolution=folded experts=separate batch=7 streams=2"
    assert list(plan.keys()) == ["device", "precision", "convolution", "experts", "batch", "streams"]
    plan = make_plan(SCHOOL, PlanSpec(batch=7, streams=2), "cuda:0")
    assert str(plan) == (
        "device=cuda:0 precision=fp16 convolution=folded experts=folded gemm=wgmma epilogue=fused"
        " copies=pinned allocation=once order=in_turn launch=graph batch=7 streams=2"
    )


@pytest.mark.parametrize("device", DEVICES)
def test_all_plans_of_a_device(device: str) -> None:
    plans = available_plans(SCHOOL, PlanSpec(batch=9), device)
    assert len(set(map(str, plans))) == len(plans)
    assert plans[0] == make_plan(SCHOOL, PlanSpec(batch=9), device)
    for key in ("convolution", "experts"):
        able = ABILITIES[device.partition(":")[0]][key]
        assert {getattr(plan, key) for plan in plans} == set(able)
    assert all(plan.batch == 9 for plan in plans)
