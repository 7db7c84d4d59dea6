"""Choosing a plan: what the configuration and the command line ask for, on the device that is there."""

from __future__ import annotations

import os
from dataclasses import replace

from accel_cli.engines.base import Plan
from accel_cli.errors import ConfigError
from accel_cli.model.config import ModelSpec, PlanSpec

# What each kind of device can do, the preferred choice first.
ABILITIES: dict[str, dict[str, tuple[str, ...]]] = {
    "cpu": {
        "precision": ("fp32",),
        "convolution": ("folded", "im2col"),
        "experts": ("folded", "separate"),
    },
    "cuda": {
        "precision": ("fp32",),
        "convolution": ("direct",),
        "experts": ("separate",),
    },
}
_WHY = {
    "fp32": "the most exact precision there is here",
    "folded": "the fewest operations, the same function",
    "direct": "the kernel that works for every input",
    "im2col": "embeddings as input cannot be folded",
    "separate": "the kernels that work for every shape",
}
_BATCH = {"cpu": 4096, "cuda": 512}
_CUDA_STREAMS = 3


def make_plan(spec: ModelSpec, wanted: PlanSpec, device: str, *, embeddings: bool = False) -> Plan:
    """The plan for a model on `device` ("cpu" or "cuda:N"), or ConfigError if it cannot be had there.

    `embeddings` says that the input is embeddings instead of tokens.
    """
    kind = device.partition(":")[0]
    reasons: dict[str, str] = {}
    chosen: dict[str, str] = {}
    for key, able in ABILITIES[kind].items():
        asked = getattr(wanted, key)
        if key == "convolution" and embeddings:
            able = tuple(choice for choice in able if choice != "folded")
        if asked == "auto":
            chosen[key] = able[0]
            reasons[key] = _WHY[able[0]]
        elif asked in able:
            chosen[key] = asked
            reasons[key] = "asked for"
        else:
            what = f"{kind} with embeddings as input" if embeddings else kind
            raise ConfigError(f"{key}: {asked} is not available on {what}; available: {', '.join(able)}")
    batch = wanted.batch or _BATCH[kind]
    streams = wanted.streams or (cores() if kind == "cpu" else _CUDA_STREAMS)
    reasons["batch"] = "asked for" if wanted.batch else "the default of this device"
    reasons["streams"] = (
        "asked for" if wanted.streams else "one a core" if kind == "cpu" else "copies overlap with compute"
    )
    return Plan(
        device, chosen["precision"], chosen["convolution"], chosen["experts"], batch, streams, reasons
    )


def available_plans(spec: ModelSpec, wanted: PlanSpec, device: str) -> list[Plan]:
    """Every plan that this kind of device offers for tokens, the preferred one first."""
    kind = device.partition(":")[0]
    return [
        make_plan(
            spec, replace(wanted, precision=precision, convolution=convolution, experts=experts), device
        )
        for precision in ABILITIES[kind]["precision"]
        for convolution in ABILITIES[kind]["convolution"]
        for experts in ABILITIES[kind]["experts"]
    ]


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
