"""Opening an engine for a configuration on the device asked for."""

from __future__ import annotations

from dataclasses import replace

from accel_cli.cuda.device import choose, facts, free_memory, index_of
from accel_cli.cuda.errors import translated
from accel_cli.engines.base import Engine, Plan
from accel_cli.engines.planner import make_plan
from accel_cli.engines.tuned import findings
from accel_cli.model.config import Config, ModelSpec, PlanSpec
from accel_cli.model.generate import obtain_weights
from accel_cli.model.weights import Weights
from accel_cli.stages import Staged, unwatched


def device_for(wanted: PlanSpec, device: str) -> str:
    """The device asked for, else the plan's, else what there is; DeviceError if it is not there."""
    return choose(wanted.device if device == "auto" else device)


def capability_of(device: str) -> tuple[int, int]:
    """The compute capability of "cuda:N"; (0, 0) of a CPU."""
    return (0, 0) if device == "cpu" else facts(index_of(device)).capability


def free_on(device: str) -> int | None:
    """The bytes of memory that are free on "cuda:N"; None of a CPU, whose table grows with the words."""
    if device == "cpu":
        return None
    with translated("asking how much is free"):  # the first use of a device: even that takes memory
        return free_memory(index_of(device))


def plan_for(config: Config, device: str = "auto", *, embeddings: bool = False) -> Plan:
    """The plan for a configuration on `device`, with the batch and the streams that tuning found for it."""
    place = device_for(config.plan, device)
    capability, free = capability_of(place), free_on(place)
    plan = make_plan(
        config.model, config.plan, place, embeddings=embeddings, capability=capability, free=free
    )
    if plan.device == "cpu" or embeddings:  # it is tuned with tokens as input
        return plan
    gpu = facts(index_of(plan.device))
    sizes = (tuned.sizes(config.model, plan.convolution) for tuned in findings(gpu))
    if (found := next(filter(None, sizes), None)) is None:
        return plan
    left = {key: getattr(found, key) for key in ("batch", "streams") if not getattr(config.plan, key)}
    return replace(plan, **left, reasons={**plan.reasons, **dict.fromkeys(left, "tuned for this device")})


def open_engine(
    config: Config, device: str = "auto", *, embeddings: bool = False, staged: Staged = unwatched
) -> Engine:
    """The engine for a configuration on `device` (auto, cpu, cuda or cuda:N), its weights loaded.

    `embeddings` prepares for embeddings as input instead of tokens.
    """
    plan = plan_for(config, device, embeddings=embeddings)
    staged("device")
    weights = obtain_weights(config.model)
    staged("weights")
    return engine_for(config.model, weights, plan, embeddings=embeddings, staged=staged)


def engine_for(
    spec: ModelSpec,
    weights: Weights,
    plan: Plan,
    *,
    embeddings: bool = False,
    staged: Staged = unwatched,
) -> Engine:
    """The engine that follows a plan."""
    if plan.device == "cpu":
        from accel_cli.engines.cpu import CpuEngine

        engine = CpuEngine(spec, weights, plan)
        staged("layers")
        return engine
    from accel_cli.engines.cuda import CudaEngine

    return CudaEngine(spec, weights, plan, embeddings=embeddings, staged=staged)
