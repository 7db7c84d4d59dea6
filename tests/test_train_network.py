"""What training computes with PyTorch, by hand: merged networks, mixtures, steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.train.base import load_base


@pytest.mark.extras
def test_merged_networks_give_the_mean_of_their_logits() -> None:
    pytest.importorskip("torch")
    from accel_cli.model.reference import forward
    from accel_cli.model.weights import assemble
    from accel_cli.train.merge import merge
    from accel_cli.train.network import Shape, initial, logits
    from accel_cli.train.rows import Resident, Rows

    base = load_base("sentiment")
    assert base is not None
    widths, filters = base.spec.widths, base.spec.filters
    shape = Shape(len(base.words) + 3, 4, (1, 2), 5, widths, filters, 3)
    rng = np.random.default_rng(1)
    batch = TokenBatch(
        rng.integers(2, shape.words, 40).astype(np.int32), np.array([0, 10, 22, 40], dtype=np.int32)
    )
    scales = rng.uniform(1, 2, (len(widths), filters)).astype(np.float32)
    features = (base.features(batch) * scales).astype(np.float16)
    rows = Rows(batch, features, np.zeros(3, dtype=np.int64))
    resident = Resident(rows, 3, max(widths), "cpu").whole(np.arange(3))
    members, expected = [], []
    for _ in range(2):
        embedding = rng.normal(size=(shape.words, 4)).astype(np.float32)
        parameters = initial(shape, embedding, rng.uniform(0.1, 1, 3).astype(np.float32))
        expected.append(logits(shape, parameters, resident).numpy())
        members.append({name: value.numpy() for name, value in parameters.items()})
    spec = replace(
        base.spec,
        vocabulary_size=shape.words,
        embedding=base.spec.embedding + 8,
        widths=shape.all_widths,
        experts=1,
        expert_hidden=3,
        fully_connected=(3,),
        labels=("a", "b", "c"),
    )
    merged = assemble(spec, merge(shape, members, filters, base, scales))
    found = forward(spec, merged, batch)["logits"]
    np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=2e-3)  # float16 on the way


@pytest.mark.extras
def test_a_mixture_has_tokens_and_labels_of_both_rows() -> None:
    pytest.importorskip("torch")
    from accel_cli.train.rows import Resident, Rows

    ids = np.array([2, 3, 4, 5, 12, 13], dtype=np.int32)
    rows = Rows(
        TokenBatch(ids, np.array([0, 4, 6], dtype=np.int32)),
        np.zeros((2, 0, 0), dtype=np.float16),
        np.array([0, 1]),
    )
    resident = Resident(rows, 2, 5, "cpu")
    whole = resident.whole(np.array([0, 1]))
    assert whole.ids.tolist() == [[2, 3, 4, 5, 1], [12, 13, 1, 1, 1]]
    assert whole.lengths.tolist() == [5, 5]
    assert whole.labels.tolist() == [[1, 0], [0, 1]]
    mixed = resident.mixed(np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.5], dtype=np.float32))
    assert mixed.ids.tolist() == [[2, 3, 13, 1, 1], [12, 4, 5, 1, 1]]
    np.testing.assert_allclose(mixed.labels.numpy(), [[2 / 3, 1 / 3], [2 / 3, 1 / 3]], atol=1e-6)


@pytest.mark.extras
def test_a_rare_word_moves_less_than_a_frequent_one() -> None:
    torch = pytest.importorskip("torch")
    from accel_cli.train.steps import Steps

    parameters = {"embedding.weight": torch.zeros(3, 1, requires_grad=True)}
    parameters["head.weight"] = torch.zeros(1, requires_grad=True)
    steps = Steps(parameters)
    for number in range(50):
        ids = torch.tensor([0, 1 if number == 20 else 0])
        loss = parameters["embedding.weight"][ids].sum() + parameters["head.weight"].sum()
        steps.take(loss, tokens=2, rate=0.01)
    often, once, never = parameters["embedding.weight"].detach().flatten().tolist()
    assert often < 30 * once < 0
    assert never == 0
