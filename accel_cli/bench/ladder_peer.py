"""PyTorch on the ladder: the same weights and inputs, eager and compiled, in each precision of the rungs.

The peer gets every favour that costs its program nothing: large batches, page-locked embeddings that are
copied without blocking, no masks (sentences of one length), and compiling before the clock starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from accel_cli.batches import Batch, EmbeddingBatch, Floats
from accel_cli.bench.ladder_clock import Subject
from accel_cli.bench.ladder_inputs import KINDS, Inputs
from accel_cli.bench.peer_networks import Network
from accel_cli.bench.peer_precision import set_precision
from accel_cli.bench.peers import require_torch
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights

_BATCH = 2048


def require_device(index: int | None) -> None:
    """AccelError unless a rung and PyTorch run on a GPU; said before anything is made."""
    require_torch()
    if index is None:
        raise AccelError(
            "--peer torch: no chosen rung runs on a GPU, so there is no device for PyTorch to share;"
            " choose one with --rungs, or leave --peer out"
        )
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise AccelError(
            f"--peer torch: this PyTorch ({torch.__version__}) has no CUDA; install one that has"
        )


def peers(
    spec: ModelSpec,
    weights: Weights,
    inputs: Inputs,
    device: str,
    flop: int,
    tell: Callable[[str], None],
    precision: str = "fp32",
) -> Iterator[Subject]:
    """Eager PyTorch on a device ("cuda:N"), then compiled PyTorch if its compiler works here."""
    torch = importlib.import_module("torch")
    set_precision(torch, precision)
    network = Network(torch, spec, weights, torch.device(device), precision)
    plan = Plan(device, precision, "direct", "separate", _BATCH, 1)
    program, rounded = f"pytorch {torch.__version__}", "" if precision == "fp32" else f" in {precision}"
    eager = _Run(torch, network, device, len(spec.widths))
    yield Subject(None, f"eager{rounded}", program, plan, eager, flop)
    # every shape is compiled by itself, so there must be few: of a batch, and of 512 sentences
    tell(f"compiling PyTorch's network{rounded}")
    torch.compiler.reset()  # PyTorch compiles a function eight times at most, then runs it eager
    compiled = _Run(torch, torch.compile(network.__call__, dynamic=False), device, len(spec.widths))
    try:
        for kind in KINDS:
            compiled(inputs.batches(kind, 0, min(_BATCH, len(inputs)), _BATCH))
    except Exception as error:  # the compiler needs a compiler of C and more, and fails in its own ways
        tell(f"PyTorch's compiler does not work here: {str(error).splitlines()[0]}")
        return
    yield Subject(None, f"compiled{rounded}", program, plan, compiled, flop)


class _Run:
    """From batches in host memory to their logits, scores and labels in host memory."""

    def __init__(self, torch: Any, network: Any, device: Any, widths: int) -> None:
        self._torch, self._network, self._device, self._masks = torch, network, device, [None] * widths

    def __call__(self, batches: list[Batch]) -> Floats:
        """The logits [sentences, labels]."""
        torch, found = self._torch, []
        with torch.inference_mode():
            for batch in batches:
                logits = self._network(self._upload(batch), self._masks)
                found.append((logits, torch.softmax(logits, 1), logits.argmax(1)))
            logits, _, _ = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        result: Floats = logits.numpy()
        return result

    def _upload(self, batch: Batch) -> Any:
        """Embeddings [sentences, dimension, length], or ids [sentences, length], on the device."""
        if isinstance(batch, EmbeddingBatch):
            return self._torch.from_numpy(batch.values).to(self._device, non_blocking=True)
        return self._torch.from_numpy(batch.ids.reshape(len(batch), -1)).to(self._device)
