"""Plans: the preferred choice, what was asked for, and a clear refusal of what is not there."""

from __future__ import annotations

from dataclasses import replace

import networks
import pytest

from accel_cli.engines import planner
from accel_cli.engines.base import Plan
from accel_cli.engines.planner import ABILITIES, available_plans, make_plan
from accel_cli.errors import ConfigError
from accel_cli.model.config import CONVOLUTIONS, EXPERTS, PRECISIONS, PlanSpec

SPEC = networks.RAGGED
DEVICES = ["cpu", "cuda:0", "cuda:3"]


def test_what_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "cores", lambda: 5)
    assert make_plan(SPEC, PlanSpec(), "cpu") == Plan("cpu", "fp32", "folded", "folded", 4096, 5)
    assert make_plan(SPEC, PlanSpec(), "cuda:1") == Plan("cuda:1", "fp32", "direct", "separate", 512, 3)


@pytest.mark.parametrize("device", DEVICES)
def test_embeddings_are_never_folded(device: str) -> None:
    plan = make_plan(SPEC, PlanSpec(), device, embeddings=True)
    assert plan.convolution == {"cpu": "im2col", "cuda": "direct"}[device.partition(":")[0]]
    with pytest.raises(ConfigError) as caught:
        make_plan(SPEC, PlanSpec(convolution="folded"), device, embeddings=True)
    kind = device.partition(":")[0]
    words = f"convolution: folded is not available on {kind} with embeddings as input; available: "
    assert str(caught.value) == words + plan.convolution


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("key", ["precision", "convolution", "experts"])
def test_every_choice_is_taken_or_refused_by_name(device: str, key: str) -> None:
    choices = {"precision": PRECISIONS, "convolution": CONVOLUTIONS, "experts": EXPERTS}[key]
    able = ABILITIES[device.partition(":")[0]][key]
    for choice in choices:
        wanted = replace(PlanSpec(), **{key: choice})
        if choice in able:
            plan = make_plan(SPEC, wanted, device)
            assert getattr(plan, key) == choice
            assert plan.reasons[key] == "asked for"
        elif choice != "auto":
            with pytest.raises(ConfigError) as caught:
                make_plan(SPEC, wanted, device)
            assert f"{key}: {choice} is not available on " in str(caught.value)
            assert f"available: {', '.join(able)}" in str(caught.value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("embeddings", [True, False])
def test_every_choice_has_its_reason(device: str, embeddings: bool) -> None:
    plan = make_plan(SPEC, PlanSpec(), device, embeddings=embeddings)
    assert set(plan.reasons) == set(plan.keys()) - {"device"}
    assert all(plan.reasons.values())


def test_sizes_asked_for() -> None:
    plan = make_plan(SPEC, PlanSpec(batch=7, streams=2), "cpu")
    assert (plan.batch, plan.streams) == (7, 2)
    assert plan.reasons["batch"] == plan.reasons["streams"] == "asked for"


def test_a_plan_prints_itself() -> None:
    plan = make_plan(SPEC, PlanSpec(batch=7, streams=2), "cuda:0")
    assert str(plan) == "device=cuda:0 precision=fp32 convolution=direct experts=separate batch=7 streams=2"
    assert list(plan.keys()) == ["device", "precision", "convolution", "experts", "batch", "streams"]


@pytest.mark.parametrize("device", DEVICES)
def test_all_plans_of_a_device(device: str) -> None:
    plans = available_plans(SPEC, PlanSpec(convolution="direct", batch=9), device)
    able = ABILITIES[device.partition(":")[0]]
    assert len(set(map(str, plans))) == len(plans)
    assert len(plans) == len(able["precision"]) * len(able["convolution"]) * len(able["experts"])
    assert plans[0].keys() == make_plan(SPEC, PlanSpec(batch=9), device).keys()
    assert all(plan.batch == 9 for plan in plans)


def test_abilities_are_words_of_the_configuration() -> None:
    for able in ABILITIES.values():
        assert set(able["precision"]) <= set(PRECISIONS)
        assert set(able["convolution"]) <= set(CONVOLUTIONS)
        assert set(able["experts"]) <= set(EXPERTS)


def test_cores() -> None:
    assert planner.cores() >= 1
