"""The network on a CUDA device as the plan says: the convolutions, then the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.buffers import empty
from accel_cli.cuda.ranges import named
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe, Plan
from accel_cli.engines.cuda_convolution import Convolution, Direct, Implicit, Sentences, Stored
from accel_cli.engines.cuda_folded import FoldedConvolution
from accel_cli.engines.cuda_head import Head
from accel_cli.engines.cuda_products import Products
from accel_cli.engines.cuda_toomcook import SgemmPoints, ToomCook
from accel_cli.engines.tensor_convolution import TensorImplicit
from accel_cli.engines.tensor_head import TensorHead
from accel_cli.engines.tensor_products import TensorProducts
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.tensor_toomcook import TensorPoints
from accel_cli.engines.tiles import Tiles
from accel_cli.kernels.argmax import argmax
from accel_cli.kernels.base import Runner
from accel_cli.kernels.folded_layout import TableType
from accel_cli.kernels.softmax import softmax
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights


@dataclass(frozen=True)
class Activations:
    """The device arrays of one batch on its way, and the streams it may use beside its own."""

    convolution: Any
    features: Any
    head: Any
    branches: Branches


class Layers:
    """Enqueues the kernels of one batch on the current stream."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, plan: Plan, tiles: Tiles, run: Runner, *, embeddings: bool
    ) -> None:
        self._spec, self._run = spec, run
        self._branches = len(spec.widths) if plan.order == "side_by_side" else 0
        folded = plan.experts == "folded"
        self._convolution: Convolution
        self._head: Head | TensorHead
        if plan.convolution == "folded":
            table = TableType.FP32 if plan.precision in ("fp32", "fp32-split") else TableType.FIXED
            self._convolution = FoldedConvolution(spec, weights, table, tiles, run)
        if plan.precision != "fp32":
            tensors = TensorProducts(plan.precision, TensorTiles(plan.gemm, tiles.device), run)
            if plan.convolution == "toomcook":
                self._convolution = ToomCook(spec, weights, TensorPoints(tensors, run), run)
            elif plan.convolution == "implicit":
                self._convolution = TensorImplicit(spec, weights, tensors, run, embeddings=embeddings)
            self._head = TensorHead(spec, weights, tensors, run, folded=folded)
            return
        products = Products(plan.gemm, tiles, run, fused=plan.epilogue == "fused")
        if plan.convolution == "direct":
            self._convolution = Direct(spec, weights, run)
        elif plan.convolution == "im2col":
            self._convolution = Stored(spec, weights, products, run)
        elif plan.convolution == "implicit":
            self._convolution = Implicit(spec, weights, products, run, embeddings=embeddings)
        elif plan.convolution == "toomcook":
            self._convolution = ToomCook(spec, weights, SgemmPoints(products, run), run)
        self._head = Head(spec, weights, products, run, folded=folded)

    def buffers(self, sentences: int, tokens: int) -> Activations:
        """Room for at most so many sentences and tokens."""
        return Activations(
            self._convolution.buffers(sentences, tokens),
            empty(sentences, self._spec.features),
            self._head.buffers(sentences),
            Branches(self._branches),
        )

    def __call__(
        self, part: Sentences, buffers: Activations, outputs: tuple[Any, Any, Any], observe: Observe | None
    ) -> None:
        """Fill `outputs`: logits and scores [sentences, labels], labels [sentences].

        Who observes sees the layers in turn.
        """
        features = buffers.features[: len(part)]
        branches = buffers.branches if observe is None else Branches(0)
        seen = observe or _nobody
        with named("convolution"):
            self._convolution(part, buffers.convolution, features, branches, seen)
        seen("features", features)
        logits, scores, labels = outputs
        self._head(features, buffers.head, logits, seen)
        with named("scores and labels"):
            softmax(self._run, logits, scores)
            argmax(self._run, logits, labels)


def _nobody(name: str, value: Any) -> None:
    """Sees nothing."""
