"""Whether a module and the model made of it give the same logits, in float64 on random ids."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from accel_cli.batches import TokenBatch
from accel_cli.errors import ConfigError
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import Weights
from accel_cli.numeric import compare
from accel_cli.torch.parts import Parts

_SENTENCES = 4  # of each length
_TOLERANCE = 1e-5  # what rounding a weight of float64 to float32 may cost


def check_same(module: nn.Module, spec: ModelSpec, weights: Weights, parts: Parts) -> None:
    """ConfigError unless the module, in float64, gives the logits of the reference."""
    double = _double(module)
    rng = np.random.default_rng(0)
    for length in _lengths(spec):
        ids = rng.integers(0, spec.vocabulary_size, (_SENTENCES, length))
        found = _logits(double, torch.from_numpy(ids))
        expected = forward(spec, weights, TokenBatch.from_rows(ids))["logits"]
        if tuple(found.shape) != expected.shape:
            raise ConfigError(
                f"for ids {list(ids.shape)} the module gives {list(found.shape)}, the model made of {parts}"
                f" gives {list(expected.shape)}; the module must give logits [sentences, labels]"
            )
        difference = compare(found.numpy(), expected, _TOLERANCE)
        if not difference.passed:
            raise ConfigError(
                f"the module and the model made of {parts} differ on sentences of {length} tokens:"
                f" {difference}. Say by parts= which layer is which and has a shortcut; the module must give"
                " logits, without a softmax, and have ReLU after each convolution and between fully connected"
                " layers alone"
            )


def _double(module: nn.Module) -> nn.Module:
    """A copy in float64."""
    try:
        return copy.deepcopy(module).to("cpu", torch.float64).eval()
    except Exception as error:  # whatever its attributes may raise
        raise ConfigError(
            f"the module cannot be copied, to be run in float64 on the CPU: {type(error).__name__}: {error};"
            " take out of it what is no part of a model"
        ) from error


def _lengths(spec: ModelSpec) -> list[int]:
    """The shortest sentences, some longer ones, and some of four times that."""
    if spec.length is not None:
        return [spec.length]
    return sorted({min(count, spec.max_tokens) for count in (spec.widest, spec.widest + 3, 4 * spec.widest)})


def _logits(module: nn.Module, ids: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            found = module(ids)
    except Exception as error:  # whatever a module may raise
        raise ConfigError(
            f"the module does not run on int64 ids {list(ids.shape)}, in float64 on the CPU:"
            f" {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Tensor):
        raise ConfigError(f"the module gives a {type(found).__name__}; it must give a tensor of logits")
    if found.is_complex():
        raise ConfigError(f"the module gives {found.dtype}; it must give logits that are real numbers")
    return found
