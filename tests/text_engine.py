"""A CUDA engine that needs no kernels: the tokenizer is the host's, the network a sum, and both run late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest
from kernels.text_marked import lines_of

from accel_cli.classifier import Classifier
from accel_cli.engines import cuda, cuda_text_network, cuda_texts
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.cuda_text import DeviceTokens
from accel_cli.model.generate import obtain_weights
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import Vocabulary

FOLDED = {**networks.FUSED, "convolution": "folded", "experts": "folded", "batch": 8, "streams": 2}


def enqueue(work: Any) -> None:
    sys.modules["cupy"].cuda.get_current_stream().enqueue(work)


class HostTokenizer:
    """In place of DeviceTokenizer. `words` is the vocabulary."""

    def __init__(self, words: Vocabulary, least: int, most: int, run: Any, size: int, lines: int) -> None:
        self._tokenizer = Tokenizer(words, least, most)
        ids, offsets = fake_cupy.empty(size + lines * least, "i4"), fake_cupy.empty(lines + 1, "i4")
        flags = fake_cupy.empty(lines, "u1"), fake_cupy.empty(lines, "u1")
        self._found = DeviceTokens(ids, offsets, *flags, fake_cupy.empty(1, "i4"))

    def __call__(self, text: Any, size: int) -> DeviceTokens:
        enqueue(lambda: self._read(bytes(text[:size])))
        return self._found

    def _read(self, text: bytes) -> None:
        encoded, found = self._tokenizer.encode(lines_of(text)), self._found
        found.ids[: len(encoded.batch.ids)] = encoded.batch.ids
        found.offsets[: len(encoded.batch) + 1] = encoded.batch.offsets
        found.truncated[: len(encoded.batch)] = encoded.truncated
        found.blank[: len(encoded.batch)] = encoded.blank


class SumOfIds:
    """In place of Layers: logits that tell sentences apart, each by what stands in it and where."""

    def __init__(self, *arguments: Any, **settings: Any) -> None: ...

    def buffers(self, sentences: int, tokens: int) -> None: ...

    def __call__(self, part: Any, buffers: None, outputs: tuple[Any, Any, Any], observe: Any) -> None:
        def compute() -> None:
            logits, scores, labels = outputs
            for row, (start, stop) in enumerate(zip(part.offsets[:-1], part.offsets[1:], strict=True)):
                ids = part.ids[start:stop]
                logits[row] = ids.sum(), ids @ np.arange(len(ids))
            scores[:] = logits / 1000
            labels[:] = logits.argmax(axis=1)

        enqueue(compute)


@contextmanager
def fake_texts() -> Iterator[pytest.MonkeyPatch]:
    """Engines that are made in here are of this kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", fake_cupy.module())
        patch.setattr(cuda, "Launcher", fake_cupy.Launcher)
        patch.setattr(cuda, "Layers", SumOfIds)
        patch.setattr(cuda_texts, "words_of", lambda vocabulary: vocabulary)
        patch.setattr(cuda_text_network, "DeviceTokenizer", HostTokenizer)
        yield patch


def classifier_of(path: Path, **keys: Any) -> Classifier:
    """A classifier whose engine is a CUDA engine with these keys of a plan."""
    made = Classifier.load(path, device="cpu")
    spec = made.config.model
    made.engine.close()
    made.engine = CudaEngine(spec, obtain_weights(spec), networks.plan("cuda:0", **{**FOLDED, **keys}))
    return made
