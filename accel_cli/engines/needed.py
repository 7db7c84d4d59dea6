"""Which kernels a plan launches on any device of an architecture, for batches of any size.

Nobody lists them: the plan's own layers are built and run over the outline of a device, and what they
launch is noted. A batch's size decides nothing but the tiles of products and how sentences are shared, so
every product is made once with each tile that may be chosen for it: by tuning, or by the rule on a device
of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from accel_cli.cuda.device import DeviceFacts, standing_in
from accel_cli.cuda.outline import Outline
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.tuned import Kind, Product, findings_for
from accel_cli.kernels.base import Launch
from accel_cli.kernels.catalogue import text
from accel_cli.kernels.folded_convolution import spreads_of
from accel_cli.kernels.folded_layout import Layout
from accel_cli.kernels.mma_gemm import MmaTile
from accel_cli.kernels.sgemm_tile import Tile
from accel_cli.kernels.tensor_operands import Operands
from accel_cli.kernels.tensor_tile import Source
from accel_cli.kernels.wgmma_gemm import WgmmaTile
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Layer, Weights, assemble, shapes

Choice = TypeVar("Choice")
_SENTENCES = 2


def needed_launches(
    spec: ModelSpec, plan: Plan, capability: tuple[int, int], *, embeddings: bool = False
) -> list[Launch]:
    """One launch for each variant of each kernel; with `embeddings` also for input that is embedded."""
    run, turns = _Notes(), _Turns()
    tiles = _EveryTile(DeviceFacts(0, "", capability, 1, 0, 0, 0, 0), turns)
    weights = _weights(spec)
    with standing_in(Outline):
        for _ in turns:  # while they are built, layers make products, too
            layers = Layers(spec, weights, plan, tiles, run, embeddings=embeddings)
        tokens = _SENTENCES * spec.max_tokens
        buffers = layers.buffers(_SENTENCES, tokens)
        for part in _parts(spec, tokens, embeddings=embeddings):
            for _ in turns:
                layers(part, buffers, _outputs(spec), None)
    if plan.convolution == "folded":  # which alone is fed by the tokenizer's kernels; each has one variant
        for launch in text():
            run(launch)
    return list(run.launches.values())


def _weights(spec: ModelSpec) -> Weights:
    """All of them 0, since no kernel is chosen by them."""
    zeros = assemble(spec, {name: np.zeros(shape, np.float32) for name, shape in shapes(spec).items()})
    idle = (Layer(Outline.asarray(layer.weight), layer.bias) for layer in zeros.fully_connected)
    return replace(zeros, fully_connected=tuple(idle))


def _parts(spec: ModelSpec, tokens: int, *, embeddings: bool) -> Iterator[Sentences]:
    """Sentences of each kind that the engine takes, as long as they may be."""
    offsets = Outline.empty(_SENTENCES + 1, np.int32)
    ends = np.arange(_SENTENCES + 1, dtype=np.int32)
    yield Sentences(offsets, ends * np.int32(spec.max_tokens), ids=Outline.empty(tokens, np.int32))
    if embeddings:  # and as short: short ones are transposed by another variant
        for length in sorted({spec.min_tokens, spec.max_tokens}):
            shape = _SENTENCES, spec.embedding, length
            yield Sentences(offsets, ends * np.int32(length), values=Outline.empty(shape, np.float32))


def _outputs(spec: ModelSpec) -> tuple[Any, Any, Any]:
    shape = _SENTENCES, len(spec.labels)
    logits, scores = Outline.empty(shape, np.float32), Outline.empty(shape, np.float32)
    return logits, scores, Outline.empty(_SENTENCES, np.int32)


class _Notes:
    """A runner that runs nothing and notes what it was to run, the first launch of each variant."""

    def __init__(self) -> None:
        self.launches: dict[tuple[Any, ...], Launch] = {}

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Note one launch."""
        self.launches.setdefault((launch.kernel.name, launch.defines), launch)


class _Turns:
    """Goes round as often as some choice has alternatives; each gives its next one in each turn."""

    def __init__(self) -> None:
        self._turn, self._most = 0, 1

    def __iter__(self) -> Iterator[int]:
        self._turn, self._most = 0, 1
        while self._turn < self._most:
            yield self._turn
            self._turn += 1

    def choose(self, alternatives: Sequence[Choice]) -> Choice:
        """The alternative whose turn it is."""
        self._most = max(self._most, len(alternatives))
        return alternatives[self._turn % len(alternatives)]


class _EveryTile(Tiles):
    """Chooses every tile that may be chosen, each in its turn."""

    def __init__(self, device: DeviceFacts, turns: _Turns) -> None:
        super().__init__(device)
        self._turns, self._found = turns, list(findings_for(device))

    def tensor(self, kernel: str) -> TensorTiles:
        """The same of products on tensor cores."""
        return _EveryTensorTile(kernel, self.device, self._turns)

    def choose(self, rows: int, columns: int, depth: int, batch: int = 1, kind: Kind = "plain") -> Tile:
        """Of those found for such products and the usual ones."""
        wanted = Product(rows, columns, depth, batch, kind)
        found = (tile for tuned in self._found for tile in tuned.tiles(wanted))
        return self._turns.choose(list(dict.fromkeys((*found, *self._usual))))

    def spread(self, layout: Layout, sentences: int) -> int:
        """All of them."""
        return self._turns.choose(spreads_of(layout))


class _EveryTensorTile(TensorTiles):
    """The same on tensor cores."""

    def __init__(self, kernel: str, device: DeviceFacts, turns: _Turns) -> None:
        super().__init__(kernel, device)
        self._turns = turns

    def best(
        self, operands: Operands, source: Source, work: Callable[[WgmmaTile | MmaTile], float]
    ) -> WgmmaTile | MmaTile:
        """Of those that may be chosen for such operands."""
        return self._turns.choose(self.legal(operands, source))
