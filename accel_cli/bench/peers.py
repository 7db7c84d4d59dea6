"""The same network in PyTorch, to be measured side by side: as one would write it, or folded as ours is.

A peer gets every favour that costs its program nothing: its sentences are sorted by length over the whole
input and padded before the clock starts, it is compiled before, and it runs with the batch size that suits
it best, in the precision of the plan.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Floats, TokenBatch
from accel_cli.bench.peer_networks import FoldedNetwork, Network
from accel_cli.bench.peer_precision import peer_precision, set_precision
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import folding_saves
from accel_cli.model.weights import Weights

PEERS = ("pytorch", "torch", "torch-folded")  # the first two are names of one program
_SIZES = {"cpu": (16, 64, 256, 1024), "cuda": (256, 1024, 4096)}  # batch sizes that are tried
_LARGEST = 16384  # on a GPU, of the folded one, which needs less memory


def require_torch() -> None:
    """Raise AccelError unless PyTorch is installed; said before anything is loaded."""
    if importlib.util.find_spec("torch") is None:
        raise AccelError(
            "--peer: PyTorch is not installed here; run `pip install torch`, or leave --peer out"
        )


def peers(
    asked: str,
    spec: ModelSpec,
    weights: Weights,
    plan: Plan,
    sentences: TokenBatch,
    tell: Callable[[str], None],
) -> list[PyTorch]:
    """Those of PEERS by that name, on the plan's device; AccelError if its PyTorch cannot use that.

    The folded one is eager, and compiled if PyTorch's compiler works here.
    """
    torch = importlib.import_module("torch")
    if plan.device != "cpu" and not torch.cuda.is_available():
        raise AccelError(
            f"--peer {asked}: the plan runs on {plan.device}, but this PyTorch ({torch.__version__}) has no"
            " CUDA; install one that has, or say --device cpu"
        )
    precision, device = peer_precision(plan.precision), torch.device(plan.device)
    set_precision(torch, precision)
    if asked != "torch-folded":
        network = Network(torch, spec, weights, device, precision)
        as_written = Plan(plan.device, precision, "direct", "separate", plan.batch, plan.streams)
        return [PyTorch(torch, network, as_written, sentences, spec.widths)]
    folded = FoldedNetwork(torch, spec, weights, device, precision)
    experts = "folded" if folding_saves(spec) else "separate"
    plan = Plan(plan.device, precision, "folded", experts, plan.batch, plan.streams)
    found = [PyTorch(torch, folded, plan, sentences, spec.widths, "folded")]
    tell("compiling PyTorch's network")
    # shapes are few where sentences have one length, and each is compiled by itself
    compiled = torch.compile(folded.__call__, dynamic=spec.length is None)
    try:
        found.append(PyTorch(torch, compiled, plan, sentences, spec.widths, "folded, compiled"))
    except Exception as error:  # the compiler needs a compiler of C and more, and fails in its own ways
        tell(f"PyTorch's compiler does not work here: {str(error).splitlines()[0]}")
    return found


@dataclass(frozen=True)
class Bucket:
    """Sentences of about one length, padded to the longest.

    `ids` is int64 [sentences, length] on the host; `masks` holds, for each width, which windows reach
    past a sentence's end, bool [sentences, 1, windows] on the device, or None if none does.
    """

    ids: Any
    masks: list[Any]


class PyTorch:
    """A network in PyTorch on the plan's device, with as many threads as the plan has streams."""

    def __init__(
        self,
        torch: Any,
        network: Callable[[Any, list[Any]], Any],
        plan: Plan,
        sentences: TokenBatch,
        widths: tuple[int, ...],
        kind: str = "",
    ) -> None:
        self._torch, self._network, self._widths = torch, network, widths
        self.version = f"pytorch {torch.__version__}"
        self.name = ", ".join(filter(None, (self.version, kind)))
        self._device = torch.device(plan.device)
        if plan.device == "cpu":
            torch.set_num_threads(plan.streams)
        self._order = np.argsort(sentences.lengths, kind="stable")
        sizes = _SIZES[self._device.type]
        if plan.device != "cpu" and plan.convolution == "folded":
            sizes = (*sizes, _LARGEST)
        size = self._best_size(sentences, sizes)
        self._buckets = self._cut(sentences, self._order, size)
        self.plan = replace(plan, batch=size)

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

    def labels(self, sentences: TokenBatch) -> npt.NDArray[np.int64]:
        """The labels [sentences] of others, sorted and padded here, in the order of the input."""
        torch, order = self._torch, np.argsort(sentences.lengths, kind="stable")
        with torch.inference_mode():
            found = [
                self._network(bucket.ids.to(self._device), bucket.masks).argmax(1)
                for bucket in self._cut(sentences, order, self.plan.batch)
            ]
            result = np.empty(len(order), dtype=np.int64)
            result[order] = torch.cat(found).cpu().numpy()
        return result

    def prepared(self, sentences: TokenBatch) -> Callable[[], Floats]:
        """A call from the ids of a few sentences in host memory to their logits there, in sorted order."""
        torch, bucket = self._torch, self._bucket(sentences.take(np.argsort(sentences.lengths)))

        def ask() -> Floats:
            with torch.inference_mode():
                found: Floats = self._network(bucket.ids.to(self._device), bucket.masks).cpu().numpy()
                return found

        return ask

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
