"""Seeded random weights for any configuration, the same bits on every machine.

A value is the standard normal quantile at 16 bits of a hash of (seed, tensor, position): there is no
stream to run through, so blocks are made side by side and in any order, and nothing but integer
arithmetic and one multiplication in float32 is between the seed and the value. The hash is the
finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from accel_cli import resources
from accel_cli.batches import Floats
from accel_cli.errors import AccelWarning, OutputError, WeightsError
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Tensors, Weights, assemble, load_weights, save_weights, shape_text, shapes

_BLOCK = 1 << 16  # hashes at a time: what fits a core's cache


@cache
def _quantiles() -> Floats:
    """The 65,536 values that a weight can take before scaling: mean 0, variance 1 within 1e-4."""
    normal = NormalDist()
    upper = [normal.inv_cdf((2 * i + 1) / (1 << 17)) for i in range(1 << 15, 1 << 16)]
    half = np.array(upper, dtype=np.float32)
    return np.concatenate((-half[::-1], half))


def normals(seed: int, name: str, count: int, deviation: float) -> Floats:
    """`count` normal values of mean 0, float32: a function of the seed, the name and the deviation."""
    key = np.uint64(int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "little"))
    table = _quantiles() * np.float32(deviation)
    out = np.empty(-(-count // 4) * 4, dtype=np.float32)

    def fill(first: int) -> None:
        last = min(first + _BLOCK, len(out) // 4)
        words = _mix(np.arange(first, last, dtype=np.uint64), key).astype("<u8", copy=False).view("<u2")
        table.take(words, out=out[4 * first : 4 * last], mode="clip")

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for _ in workers.map(fill, range(0, len(out) // 4, _BLOCK)):
            pass
    return out[:count]


def _mix(position: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """SplitMix64's output number `position` for the state `key`; `position` is overwritten."""
    z = position
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += key
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def deviation(name: str, shape: tuple[int, ...]) -> float:
    """The standard deviation of a generated tensor, so that activations keep their size."""
    if name.endswith(".bias"):
        return 0.1  # N(0, 0.01): 0.01 is the variance
    if name.startswith("embedding."):
        return 1.0
    inputs = int(np.prod(shape[1:]))
    variance = (2.0 if name.startswith("fc.") else 1.0) / inputs
    return float(np.sqrt(variance))


def generate(spec: ModelSpec, seed: int) -> Tensors:
    """All tensors of a network, from a seed."""
    return {
        name: normals(seed, name, int(np.prod(shape)), deviation(name, shape)).reshape(shape)
        for name, shape in shapes(spec).items()
    }


def generated_path(spec: ModelSpec) -> Path:
    """Where the generated weights of a configuration are cached."""
    name = hashlib.sha256(f"1 {spec.seed} {shape_text(spec)}".encode()).hexdigest()[:16]
    return resources.cache_folder() / "weights" / f"generated-{name}.safetensors"


def obtain_weights(spec: ModelSpec) -> Weights:
    """The weights of a configuration: read from their file, or generated once and then cached."""
    if spec.weights is not None:
        return load_weights(spec.weights, spec)
    path = generated_path(spec)
    if path.is_file():
        with contextlib.suppress(WeightsError):  # a damaged cache entry is made again
            return load_weights(path, spec)
    tensors = generate(spec, spec.seed)
    try:
        save_weights(path, spec, tensors)
    except OutputError as error:  # a full disk or a folder of others costs the cache, not the run
        warnings.warn(f"the generated weights are not kept: {error}", AccelWarning, stacklevel=2)
    return assemble(spec, tensors)
