"""The same network in PyTorch, written the straightforward way, to be measured side by side.

The peer gets every favour that costs its program nothing: its sentences are sorted by length over
the whole input and padded before the clock starts, and it runs with the batch size that suits it best.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Floats, TokenBatch
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Layer, Weights

PEERS = ("pytorch", "torch")  # two names of one program
_SIZES = {"cpu": (16, 64, 256, 1024), "cuda": (256, 1024, 4096)}  # batch sizes that are tried


def require_torch() -> None:
    """Raise AccelError unless PyTorch is installed; said before anything is loaded."""
    if importlib.util.find_spec("torch") is None:
        raise AccelError(
            "--peer pytorch: PyTorch is not installed here; run `pip install torch`, or leave --peer out"
        )


def exact_fp32(torch: Any) -> None:
    """float32 means float32: by default cuDNN would round to TF32. And its fastest way may be looked for."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


@dataclass(frozen=True)
class Bucket:
    """Sentences of about one length, padded to the longest.

    `ids` is int64 [sentences, length] on the host; `masks` holds, for each width, which windows reach
    past a sentence's end, bool [sentences, 1, windows] on the device, or None if none does.
    """

    ids: Any
    masks: list[Any]


class PyTorch:
    """The network in eager PyTorch, float32, on the plan's device and with as many threads."""

    def __init__(self, spec: ModelSpec, weights: Weights, plan: Plan, sentences: TokenBatch) -> None:
        self._torch: Any = importlib.import_module("torch")
        if plan.device != "cpu" and not self._torch.cuda.is_available():
            raise AccelError(
                f"--peer pytorch: the plan runs on {plan.device}, but this PyTorch"
                f" ({self._torch.__version__}) has no CUDA; install one that has, or say --device cpu"
            )
        self.name = f"pytorch {self._torch.__version__}"
        self._device = self._torch.device(plan.device)
        if plan.device == "cpu":
            self._torch.set_num_threads(plan.streams)
        else:
            exact_fp32(self._torch)
        self._network = Network(self._torch, weights, self._device)
        self._widths = spec.widths
        self._order = np.argsort(sentences.lengths, kind="stable")
        size = self._best_size(sentences, _SIZES[self._device.type])
        self._buckets = self._cut(sentences, self._order, size)
        self.plan = replace(
            plan, precision="fp32", convolution="direct", experts="separate", batch=size, reasons={}
        )

    def predict(self) -> Floats:
        """From ids in memory to scores, labels and logits in memory; the logits in sorted order."""
        torch, found = self._torch, []
        with torch.inference_mode():
            for bucket in self._buckets:
                logits = self._network(bucket.ids.to(self._device), bucket.masks)
                found.append((logits, torch.softmax(logits, 1), logits.argmax(1)))
            logits, _, _ = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        result: Floats = logits.numpy()
        return result

    def logits(self) -> Floats:
        """The logits [sentences, labels] in the order of the input."""
        found = self.predict()
        result = np.empty_like(found)
        result[self._order] = found
        return result

    def device_seconds(self) -> float:
        """Seconds on the CUDA device from ids there to logits there."""
        torch = self._torch
        ids = [bucket.ids.to(self._device) for bucket in self._buckets]
        with torch.inference_mode(), torch.cuda.device(self._device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for some, bucket in zip(ids, self._buckets, strict=True):
                self._network(some, bucket.masks)
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3

    def _cut(self, sentences: TokenBatch, order: npt.NDArray[np.intp], size: int) -> list[Bucket]:
        return [self._bucket(sentences.take(order[i : i + size])) for i in range(0, len(order), size)]

    def _bucket(self, batch: TokenBatch) -> Bucket:
        lengths = batch.lengths.astype(np.int64)
        longest = int(lengths.max())
        ids = np.zeros((len(batch), longest), dtype=np.int64)
        ids[np.arange(longest) < lengths[:, None]] = batch.ids
        masks = []
        for width in self._widths:
            beyond = np.arange(longest - width + 1) > (lengths - width)[:, None]
            mask = self._torch.from_numpy(beyond[:, None]).to(self._device)
            masks.append(mask if beyond.any() else None)
        return Bucket(self._torch.from_numpy(ids), masks)

    def _best_size(self, sentences: TokenBatch, choices: tuple[int, ...]) -> int:
        """The fastest batch size on as many sentences as the largest takes, evenly over all lengths."""
        some = self._order[:: -(-len(self._order) // choices[-1])]
        sizes = [size for size in choices if size <= len(some)] or [len(some)]
        return min(sizes, key=lambda size: self._seconds(self._cut(sentences, some, size)))

    def _seconds(self, buckets: Sequence[Bucket]) -> float:
        """The fastest of three passes after a warm-up; one pass alone may meet a busy machine."""

        def once() -> float:
            begin = time.perf_counter()
            for bucket in buckets:
                logits = self._network(bucket.ids.to(self._device), bucket.masks)
            logits.cpu()  # waits for the device
            return time.perf_counter() - begin

        with self._torch.inference_mode():
            once()
            return min(once() for _ in range(3))


class Network:
    """The layers, as one would write them in PyTorch."""

    def __init__(self, torch: Any, weights: Weights, device: Any) -> None:
        def up(layer: Layer) -> tuple[Any, Any]:
            return torch.tensor(layer.weight, device=device), torch.tensor(layer.bias, device=device)

        self._torch = torch
        self._embedding = torch.tensor(weights.embedding, device=device)
        self._convolutions = [up(layer) for layer in weights.convolutions]
        self._gate = up(weights.gate)
        self._experts = [up(layer) for layer in weights.experts]
        self._fully_connected = [up(layer) for layer in weights.fully_connected]

    def __call__(self, sentences: Any, masks: Sequence[Any]) -> Any:
        """Logits [sentences, labels] of padded ids [sentences, length], or of embeddings, channel first."""
        torch, functional = self._torch, self._torch.nn.functional
        embedded = sentences.dim() == 3
        x = sentences if embedded else functional.embedding(sentences, self._embedding).transpose(1, 2)
        pooled = []
        for (weight, bias), mask in zip(self._convolutions, masks, strict=True):
            y = torch.relu(functional.conv1d(x, weight, bias))
            if mask is not None:  # what ReLU leaves is never below zero, so zeros cannot win
                y = y.masked_fill(mask, 0.0)
            pooled.append(y.amax(dim=2))
        features = torch.cat(pooled, dim=1)
        gate = torch.softmax(functional.linear(features, *self._gate), dim=1)
        values = sum(
            gate[:, e : e + 1] * functional.linear(features, *expert)
            for e, expert in enumerate(self._experts)
        )
        *hidden, last = self._fully_connected
        for layer in hidden:
            values = torch.relu(functional.linear(values, *layer))
        return functional.linear(values, *last)
