"""Choosing a plan: what the configuration and the command line ask for, on the device that is there."""

from __future__ import annotations

import itertools
import os

from accel_cli.engines.base import Plan
from accel_cli.errors import ConfigError
from accel_cli.kernels.folded_layout import WIDEST
from accel_cli.kernels.sgemm import WEIGHED
from accel_cli.model.config import CHOICES, ModelSpec, PlanSpec
from accel_cli.model.toomcook import MOST_TOKENS

# What each kind of device can do, the preferred choice first. What is not named has no meaning there.
ABILITIES: dict[str, dict[str, tuple[str, ...]]] = {
    "cpu": {
        "precision": ("fp32",),
        "convolution": ("folded", "im2col"),
        "experts": ("folded", "separate"),
    },
    "cuda": {
        "precision": ("fp32", "fp32-split", "tf32", "fp16", "bf16"),
        "convolution": ("toomcook", "implicit", "im2col", "direct", "folded"),
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
    "folded": "the fewest operations, the same function",
    "separate": "nothing to fold or fuse it into",
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
    "graph": "batches are alike, and a graph costs one launch",
    "stream": "sentences have any length, so no two batches are alike",
}
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
_CUDA_STREAMS = 3


def make_plan(
    spec: ModelSpec,
    wanted: PlanSpec,
    device: str,
    *,
    embeddings: bool = False,
    capability: tuple[int, int] = HOPPER,
) -> Plan:
    """The plan for a model on `device` ("cpu" or "cuda:N"), or ConfigError if it cannot be had there.

    `embeddings` says that the input is embeddings instead of tokens; `capability` is a GPU's.
    """
    kind = device.partition(":")[0]
    where = f"{kind} with embeddings as input" if embeddings else kind
    missing = ("wgmma",) if capability != HOPPER else ()
    reasons: dict[str, str] = {}
    chosen: dict[str, str] = {}
    for key in _ORDER:
        asked = getattr(wanted, key)
        able = tuple(
            choice
            for choice in _able(spec, key, kind, chosen, embeddings=embeddings)
            if choice not in missing
        )
        if asked == "auto" and able:
            chosen[key], reasons[key] = able[0], _WHY[able[0]]
        elif asked in able:
            chosen[key], reasons[key] = asked, "asked for"
        elif asked != "auto":
            there = f"available: {', '.join(able)}" if able else "leave it out"
            reason = _obstacle(spec, key, asked, chosen, capability)
            raise ConfigError(f"{key}: {asked} is not available on {where}{reason}; {there}")
    batch = wanted.batch or _BATCH[kind]
    streams = wanted.streams or (cores() if kind == "cpu" else _CUDA_STREAMS)
    reasons["batch"] = "asked for" if wanted.batch else "the default of this device"
    reasons["streams"] = (
        "asked for" if wanted.streams else "one a core" if kind == "cpu" else "copies overlap with compute"
    )
    debug = wanted.kernel_debug if kind == "cuda" else ""
    if debug:
        reasons["kernel_debug"] = "asked for"
    return Plan(device, **chosen, batch=batch, streams=streams, kernel_debug=debug, reasons=reasons)


def _able(
    spec: ModelSpec, key: str, kind: str, chosen: dict[str, str], *, embeddings: bool
) -> tuple[str, ...]:
    """What a device can do for a key after what has been chosen, the preferred choice first."""
    able = ABILITIES[kind].get(key, ())
    refused: set[str] = set()
    if embeddings and key == "convolution":
        refused.add("folded")
    refused.update(choice for choice in able if _missing(key, choice, chosen))
    if key == "convolution" and spec.widest > min(spec.max_tokens, MOST_TOKENS):
        refused.add("toomcook")
    if key == "convolution" and kind == "cuda" and spec.widest > WIDEST:
        refused.add("folded")
    if key == "precision" and spec.experts > WEIGHED[-1]:
        refused.update(_TENSOR)
    able = tuple(choice for choice in able if choice not in refused)
    if spec.length is None:  # chunks of long sentences overlap, and no two batches are alike
        last = ("toomcook", "graph")
        able = tuple(sorted(able, key=lambda choice: choice in last))
    return able


def _obstacle(
    spec: ModelSpec, key: str, asked: str, chosen: dict[str, str], capability: tuple[int, int]
) -> str:
    """What stands in the way of a choice that its kind of device can make."""
    missing = _missing(key, asked, chosen)
    if missing:
        return f" with {missing}: {chosen[missing]}"
    if asked == "wgmma" and capability != HOPPER:
        return f" of capability {capability[0]}.{capability[1]}, it needs {HOPPER[0]}.{HOPPER[1]}"
    if asked in _TENSOR and spec.experts > WEIGHED[-1]:
        return f" for {spec.experts} experts, more than {WEIGHED[-1]}"
    if "gemm" in chosen and asked in ("toomcook", "folded"):
        return f" for a convolution over {spec.widest} tokens"
    return ""


def _missing(key: str, choice: str, chosen: dict[str, str]) -> str | None:
    """The key that was chosen otherwise than a choice takes it."""
    needs = _NEEDS.get((key, choice), {})
    return next((need for need in needs if need in chosen and chosen[need] not in needs[need]), None)


def available_plans(
    spec: ModelSpec, wanted: PlanSpec, device: str, *, capability: tuple[int, int] = HOPPER
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
            plans.append(make_plan(spec, asked, device, capability=capability))
        except ConfigError:
            continue  # these choices do not go together
    return plans


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
