"""Choosing a plan: what the configuration and the command line ask for, on the device that is there."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

from accel_cli.engines.base import Plan
from accel_cli.engines.folded_size import load_bytes, table_of
from accel_cli.errors import ConfigError
from accel_cli.kernels.folded_layout import WIDEST
from accel_cli.kernels.sgemm import WEIGHED
from accel_cli.model.config import CHOICES, ModelSpec, PlanSpec
from accel_cli.model.folding import experts_fold, folding_saves
from accel_cli.model.toomcook import MOST_TOKENS

# What each kind of device can do, the preferred choice first. What is not named has no meaning there.
ABILITIES: dict[str, dict[str, tuple[str, ...]]] = {
    "cpu": {
        "precision": ("fp32",),
        "convolution": ("folded", "im2col"),
        "experts": ("folded", "separate"),
    },
    "cuda": {
        "precision": ("fp16", "fp32-split", "tf32", "fp32", "bf16"),
        "convolution": ("folded", "toomcook", "implicit", "im2col", "direct"),
        "experts": ("folded", "separate"),
        "gemm": ("sgemm", "wgmma", "mma", "tiled", "naive"),
        "epilogue": ("fused", "separate"),
        "copies": ("pinned", "pageable"),
        "allocation": ("once", "per_call"),
        "order": ("side_by_side", "in_turn"),
        "launch": ("graph", "stream"),
    },
}
# Why a choice is preferred; the others fall only when they are asked for.
_WHY = {
    "fp32": "the most exact precision there is here",
    "fp16": "the fastest precision whose error stays below 5e-3",
    "fp32-split": "nearly as exact as fp32, on tensor cores",
    "folded": "the fewest operations, the same function",
    "separate": "nothing to fuse it into",
    "toomcook": "the fewest multiplications without folding",
    "implicit": "windows are found by the product's loads",
    "im2col": "works for every input and every product",
    "sgemm": "the fastest product in fp32",
    "wgmma": "the fastest product of Hopper's tensor cores",
    "mma": "the product of any tensor cores",
    "fused": "saves a trip through memory",
    "pinned": "copies run beside compute",
    "once": "nothing is allocated while it runs",
    "side_by_side": "small products fill the device together",
    "in_turn": "one product at a time is all there is",
    "graph": "the same launches come again, and a graph of them costs one",
    "stream": "sentences have any length, so no two batches are alike",
}
_SHORTCUT = "the shortcut around fc.0 adds what the experts give"
_TENSOR = ("fp32-split", "tf32", "fp16", "bf16")  # precisions of tensor cores
_PLAIN, _FUSING = ("sgemm", "tiled", "naive"), ("sgemm", "wgmma", "mma")
# What a choice takes of other keys.
_NEEDS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    **{("gemm", gemm): {"precision": ("fp32",)} for gemm in _PLAIN},
    **{("gemm", gemm): {"precision": _TENSOR} for gemm in ("wgmma", "mma")},
    ("convolution", "toomcook"): {"precision": ("fp32", "fp32-split"), "gemm": _FUSING},
    ("convolution", "implicit"): {"gemm": _FUSING},
    ("convolution", "im2col"): {"precision": ("fp32",), "gemm": _PLAIN},
    ("convolution", "direct"): {"precision": ("fp32",), "gemm": _PLAIN},
    ("epilogue", "fused"): {"gemm": _FUSING},
    ("epilogue", "separate"): {"precision": ("fp32",), "gemm": _PLAIN},
    ("order", "side_by_side"): {"convolution": ("implicit",)},
    ("launch", "graph"): {"allocation": ("once",)},
}
_FIRST = ("precision", "gemm")
_ORDER = (*_FIRST, *(key for key in CHOICES if key not in (*_FIRST, "device")))
HOPPER = (9, 0)
_BATCH = {"cpu": 4096, "cuda": 2048}
# On a GPU, where rows of a table leave nothing between words and features: sentences, and tokens at most.
_FOLDED_BATCH, _FOLDED_TOKENS = 32768, 1 << 21
_CUDA_STREAMS = 4


def make_plan(
    spec: ModelSpec,
    wanted: PlanSpec,
    device: str,
    *,
    embeddings: bool = False,
    capability: tuple[int, int] = HOPPER,
    free: int | None = None,
) -> Plan:
    """The plan for a model on `device` ("cpu" or "cuda:N"), or ConfigError if it cannot be had there.

    `embeddings` says that the input is embeddings instead of tokens; `capability` is a GPU's, `free` how many
    bytes of its memory are free, None if that is unknown.
    """
    kind = device.partition(":")[0]
    case = _Case(spec, kind, embeddings, capability, free)
    reasons: dict[str, str] = {}
    chosen: dict[str, str] = {}
    for key in _ORDER:
        asked = getattr(wanted, key)
        order = case.order(key, chosen)
        obstacles = {choice: case.obstacle(key, choice, chosen) for choice in order}
        possible = [choice for choice in order if obstacles[choice] is None]
        if asked == "auto":
            possible = _fitting(key, possible, wanted)
        too_large = {c: text for c in possible if (text := case.too_large(key, c, chosen))}
        able = [choice for choice in possible if choice not in too_large]
        if asked == "auto" and able:
            better = possible[: possible.index(able[0])]  # but too large
            chosen[key] = able[0]
            reasons[key] = "; ".join([case.why(key, able[0]), *(f"{c}: {too_large[c]}" for c in better)])
        elif asked in able:
            chosen[key], reasons[key] = asked, "asked for"
        elif asked != "auto":
            there = f"available: {', '.join(able)}" if able else "leave it out"
            reason = f": {too_large[asked]}" if asked in too_large else obstacles.get(asked) or ""
            raise ConfigError(f"{key}: {asked} is not available on {case.where}{reason}; {there}")
    batch = wanted.batch or _usual_batch(spec, kind, chosen["convolution"])
    streams = wanted.streams or (cores() if kind == "cpu" else _CUDA_STREAMS)
    reasons["batch"] = "asked for" if wanted.batch else "the default of this device"
    reasons["streams"] = (
        "asked for" if wanted.streams else "one a core" if kind == "cpu" else "copies overlap with compute"
    )
    debug = wanted.kernel_debug if kind == "cuda" else ""
    if debug:
        reasons["kernel_debug"] = "asked for"
    kernels = wanted.kernels if kind == "cuda" else ""
    if kernels:
        reasons["kernels"] = "asked for"
    return Plan(
        device,
        **chosen,
        batch=batch,
        streams=streams,
        kernel_debug=debug,
        kernels=kernels,
        reasons=reasons,
    )


def _usual_batch(spec: ModelSpec, kind: str, convolution: str) -> int:
    """How many sentences are computed at once, unless somebody says so."""
    if (kind, convolution) != ("cuda", "folded"):
        return _BATCH[kind]
    return min(_FOLDED_BATCH, _FOLDED_TOKENS // (spec.length or 1))


@dataclass(frozen=True)
class _Case:
    """What a plan is made for."""

    spec: ModelSpec
    kind: str
    embeddings: bool
    capability: tuple[int, int]
    free: int | None

    @property
    def where(self) -> str:
        """The kind of device, as a refusal names it."""
        return f"{self.kind} with embeddings as input" if self.embeddings else self.kind

    def order(self, key: str, chosen: dict[str, str]) -> list[str]:
        """What this kind of device can do for a key after what was chosen, the preferred choice first."""
        last = set()
        if self.spec.length is None:  # chunks of long sentences overlap, and no two batches are alike
            last.add("toomcook")
            if chosen.get("convolution") != "folded":  # whose launches depend on the count of sentences alone
                last.add("graph")
        if key == "experts" and not folding_saves(self.spec):
            last.add("folded")
        return sorted(ABILITIES[self.kind].get(key, ()), key=lambda choice: choice in last)

    def why(self, key: str, choice: str) -> str:
        """Why a choice is the preferred one of those that can be had."""
        if (key, choice) == ("experts", "separate"):
            if not experts_fold(self.spec):
                return _SHORTCUT
            first, hidden = self.spec.fully_connected[0], self.spec.expert_hidden
            return f"fc.0, {first} wide, is not narrower than the experts, {hidden} wide"
        return _WHY[choice]

    def obstacle(self, key: str, choice: str, chosen: dict[str, str]) -> str | None:
        """What stands in the way of a choice after what has been chosen, as said after `where`, or None."""
        spec = self.spec
        if missing := _missing(key, choice, chosen):
            return f" with {missing}: {chosen[missing]}"
        if choice == "wgmma" and self.capability != HOPPER:
            have, least = (".".join(map(str, version)) for version in (self.capability, HOPPER))
            return f" of capability {have}, it needs {least}"
        if key == "precision" and choice in _TENSOR and spec.experts > WEIGHED[-1]:
            return f" for {spec.experts} experts, more than {WEIGHED[-1]}"
        if (key, choice) == ("experts", "folded") and not experts_fold(spec):
            return f": {_SHORTCUT}"
        if key != "convolution":
            return None
        if choice == "folded" and self.embeddings:
            return ""
        most = {"toomcook": min(spec.max_tokens, MOST_TOKENS)}
        if self.kind == "cuda":
            most["folded"] = WIDEST
        if spec.widest > most.get(choice, spec.widest):
            return f" for a convolution over {spec.widest} tokens"
        return None

    def too_large(self, key: str, choice: str, chosen: dict[str, str]) -> str | None:
        """That a choice takes more memory than is free, None if it fits."""
        if (self.kind, key, choice) != ("cuda", "convolution", "folded") or self.free is None:
            return None
        need = load_bytes(self.spec, table_of(chosen["precision"]))
        if need <= self.free:
            return None
        return f"the table takes {need / 1e9:.2f} GB to make, and {self.free / 1e9:.2f} GB are free"


def _missing(key: str, choice: str, chosen: dict[str, str]) -> str | None:
    """The key that was chosen otherwise than a choice takes it."""
    needs = _NEEDS.get((key, choice), {})
    return next((need for need in needs if need in chosen and chosen[need] not in needs[need]), None)


def _fitting(key: str, possible: list[str], wanted: PlanSpec) -> list[str]:
    """Those that go together with what is asked for of other keys, or all if none does."""
    asked = [_NEEDS.get((other, getattr(wanted, other)), {}) for other in CHOICES]
    taken = [needs[key] for needs in asked if key in needs]
    return [choice for choice in possible if all(choice in choices for choices in taken)] or possible


def available_plans(
    spec: ModelSpec,
    wanted: PlanSpec,
    device: str,
    *,
    capability: tuple[int, int] = HOPPER,
    free: int | None = None,
) -> list[Plan]:
    """Every way that such a device offers to compute the network from tokens, the preferred one first.

    The ways of moving data and launching kernels are as `wanted`.
    """
    kind = device.partition(":")[0]
    keys = [
        key for key in ("precision", "convolution", "experts", "gemm", "epilogue") if key in ABILITIES[kind]
    ]
    plans = []
    for choices in itertools.product(*(ABILITIES[kind][key] for key in keys)):
        asked = wanted.overridden(**dict(zip(keys, choices, strict=True)))
        try:
            plans.append(make_plan(spec, asked, device, capability=capability, free=free))
        except ConfigError:
            continue  # these choices do not go together
    return plans


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
