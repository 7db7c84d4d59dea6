"""The network on a CUDA device as the plan says: the convolutions, then the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.ranges import named
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe, Plan
from accel_cli.engines.cuda_convolution import Convolution, Direct, Implicit, Sentences, Stored
from accel_cli.engines.cuda_features import FloatFeatures
from accel_cli.engines.cuda_folded import FoldedConvolution
from accel_cli.engines.cuda_head import Head
from accel_cli.engines.cuda_outputs import Outputs
from accel_cli.engines.cuda_products import Products
from accel_cli.engines.cuda_toomcook import SgemmPoints, ToomCook
from accel_cli.engines.folded_size import table_of
from accel_cli.engines.tensor_convolution import TensorImplicit
from accel_cli.engines.tensor_head import TensorHead
from accel_cli.engines.tensor_products import TensorProducts
from accel_cli.engines.tensor_toomcook import TensorPoints
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.values import Room
from accel_cli.kernels.base import Runner
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights


@dataclass(frozen=True)
class Activations:
    """The device arrays of one batch on its way, and the streams it may use beside its own."""

    convolution: Any
    features: Room
    head: Any
    branches: Branches


class Layers:
    """Enqueues the kernels of one batch on the current stream."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, plan: Plan, tiles: Tiles, run: Runner, *, embeddings: bool
    ) -> None:
        self._width = spec.features
        self._branches = len(spec.widths) if plan.order == "side_by_side" else 0
        self._convolution: Convolution
        self._head: Head | TensorHead
        network = _plain if plan.precision == "fp32" else _tensor
        convolution, self._head = network(spec, weights, plan, tiles, run, embeddings=embeddings)
        self._packed = False
        if convolution is None:
            folded = FoldedConvolution(spec, weights, table_of(plan.precision), tiles, run)
            self._convolution = folded
            # Bulk copies bring what is packed.
            self._packed = plan.gemm == "wgmma" and folded.packs(self._head.reads)
        else:
            self._convolution = FloatFeatures(convolution, spec.features, self._head.reads, run)

    def buffers(self, sentences: int, tokens: int) -> Activations:
        """Room for at most so many sentences and tokens."""
        return Activations(
            self._convolution.buffers(sentences, tokens),
            Room(sentences, self._width, self._head.reads, packed=self._packed),
            self._head.buffers(sentences),
            Branches(self._branches),
        )

    def __call__(
        self, part: Sentences, buffers: Activations, outputs: tuple[Any, Any, Any], observe: Observe | None
    ) -> None:
        """Fill `outputs`: logits and scores [sentences, labels], labels [sentences].

        Who observes sees the layers in turn.
        """
        features = buffers.features.rows(len(part))
        branches = buffers.branches if observe is None else Branches(0)
        seen = observe or _nobody
        with named("convolution"):
            self._convolution(part, buffers.convolution, features, branches, seen)
        seen("features", features)
        self._head(features, buffers.head, Outputs(*outputs), seen)


def _nobody(name: str, value: Any) -> None:
    """Sees nothing."""


def _plain(
    spec: ModelSpec, weights: Weights, plan: Plan, tiles: Tiles, run: Runner, *, embeddings: bool
) -> tuple[Convolution | None, Head]:
    """The convolution, unless it is folded, and the head on units for fp32."""
    products = Products(plan.gemm, tiles, run, fused=plan.epilogue == "fused")
    convolution: Convolution | None = None
    if plan.convolution == "direct":
        convolution = Direct(spec, weights, run)
    elif plan.convolution == "im2col":
        convolution = Stored(spec, weights, products, run)
    elif plan.convolution == "implicit":
        convolution = Implicit(spec, weights, products, run, embeddings=embeddings)
    elif plan.convolution == "toomcook":
        convolution = ToomCook(spec, weights, SgemmPoints(products, run), run)
    return convolution, Head(spec, weights, products, run, folded=plan.experts == "folded")


def _tensor(
    spec: ModelSpec, weights: Weights, plan: Plan, tiles: Tiles, run: Runner, *, embeddings: bool
) -> tuple[Convolution | None, TensorHead]:
    """The same on tensor cores."""
    products = TensorProducts(plan.precision, tiles.tensor(plan.gemm), run)
    convolution: Convolution | None = None
    if plan.convolution == "implicit":
        convolution = TensorImplicit(spec, weights, products, run, embeddings=embeddings)
    elif plan.convolution == "toomcook":
        convolution = ToomCook(spec, weights, TensorPoints(products, run), run)
    return convolution, TensorHead(spec, weights, products, run, folded=plan.experts == "folded")
