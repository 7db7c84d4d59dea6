"""Features between a convolution that leaves floats and a head that may read something else."""

from __future__ import annotations

from typing import Any

from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_convolution import Convolution, Sentences
from accel_cli.engines.values import Room, Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.cast import cast
from accel_cli.kernels.tensor_operands import Output


class FloatFeatures:
    """A convolution whose features are floats, as the maximum over time is found among them by atomics.

    They go straight into the head's features where it reads floats; else they are cast.
    """

    def __init__(self, convolution: Convolution, width: int, reads: Output, run: Runner) -> None:
        self._convolution, self._width, self._reads, self._run = convolution, width, reads, run

    def buffers(self, sentences: int, tokens: int) -> tuple[Any, Room | None]:
        """The convolution's, and its features if they are cast."""
        floats = None if self._reads == Output.FP32 else Room(sentences, self._width, Output.FP32)
        return self._convolution.buffers(sentences, tokens), floats

    def __call__(
        self, part: Sentences, buffers: Any, features: Values, branches: Branches, observe: Observe
    ) -> None:
        """The convolution, then a cast or nothing."""
        inside, room = buffers
        floats = features if room is None else room.rows(len(part))
        self._convolution(part, inside, floats.array, branches, observe)
        if room is not None:
            cast(self._run, floats.array, features.array, features.output)
