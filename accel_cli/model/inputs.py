"""Arrays from outside as batches: checked once, here, against the model's shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import EmbeddingBatch, TokenBatch
from accel_cli.errors import InputError
from accel_cli.model.config import ModelSpec


def token_batch(spec: ModelSpec, ids: npt.NDArray[Any], place: str = "token ids") -> TokenBatch:
    """A batch from integers [sentences, length], or InputError naming `place` unless the model takes them."""
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise InputError(
            f"{place}: expected integers [sentences, length], got {ids.dtype} of shape {list(ids.shape)}"
        )
    _check_length(spec, ids.shape[1], place)
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < spec.vocabulary_size:
        raise InputError(
            f"{place}: ids run from {ids.min()} to {ids.max()}, the vocabulary from 0 to"
            f" {spec.vocabulary_size - 1}"
        )
    return TokenBatch.from_rows(ids)


def embedding_batch(spec: ModelSpec, values: npt.NDArray[Any], place: str = "embeddings") -> EmbeddingBatch:
    """A batch from floats [sentences, dimension, length], or InputError naming `place`."""
    if values.ndim != 3 or values.dtype.kind != "f" or values.shape[1] != spec.embedding:
        raise InputError(
            f"{place}: expected floats [sentences, {spec.embedding}, length] (channel first), got"
            f" {values.dtype} of shape {list(values.shape)}"
        )
    _check_length(spec, values.shape[2], place)
    with np.errstate(over="ignore"):  # what float32 does not hold becomes infinity, which is refused
        batch = EmbeddingBatch(np.ascontiguousarray(values, dtype=np.float32))
    if not np.isfinite(batch.values).all():
        raise InputError(f"{place}: NaN or infinity among the values; repair or drop those sentences")
    return batch


def _check_length(spec: ModelSpec, length: int, place: str) -> None:
    if not spec.min_tokens <= length <= spec.max_tokens:
        wanted = f"{spec.length}" if spec.length else f"{spec.min_tokens} to {spec.max_tokens}"
        raise InputError(
            f"{place}: sentences of {length} tokens, the model takes {wanted}; fill up short ones with that"
            " of `<pad>`, behind their words, or cut long ones"
        )
