"""Batches in the slots of a folded plan: whatever their lengths, as many sentences are one graph."""

from __future__ import annotations

from typing import Any

import networks
import numpy as np
from text_engine import FOLDED, SumOfIds, fake_texts

from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine

LONG = [[9]] * 4 + [[9, 9]] * 4  # twice for either slot: as it is, and captured with the most tokens
SHORTER = [[5], [9, 6], [7], [5, 5], [6, 9], [9]]


def test_sentences_of_other_lengths_replay_a_graph() -> None:
    enqueued: list[int] = []

    class Counted(SumOfIds):
        def __call__(self, part: Any, *rest: Any) -> None:
            enqueued.append(len(part))
            super().__call__(part, *rest)

    spec = networks.RAGGED
    with fake_texts() as patch:
        patch.setattr(cuda, "Layers", Counted)
        engine = CudaEngine(spec, None, networks.plan("cuda:0", **{**FOLDED, "launch": "graph"}))
        for seed, lengths in enumerate([*LONG, *SHORTER]):
            batch = networks.sentences(spec, lengths, seed=seed)
            found = engine.submit(batch).result()
            sums = np.add.reduceat(batch.ids, batch.offsets[:-1])
            np.testing.assert_array_equal(found.logits[:, 0], sums)
            np.testing.assert_array_equal(found.labels, found.logits.argmax(axis=1))
            np.testing.assert_allclose(found.scores, found.logits / 1000, rtol=1e-6)
    assert enqueued == [len(lengths) for lengths in LONG]
