"""The network in plain PyTorch, and folded, against the float64 reference."""

from __future__ import annotations

from typing import Any

import networks
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from accel_cli.batches import TokenBatch  # noqa: E402
from accel_cli.errors import UsageError  # noqa: E402
from accel_cli.model.config import Config, load_config  # noqa: E402
from accel_cli.model.generate import obtain_weights  # noqa: E402
from accel_cli.model.reference import forward  # noqa: E402
from accel_cli.model.weights import shapes  # noqa: E402
from accel_cli.torch import Classifier, Network, to_torch  # noqa: E402
from torch_ops.models import SIZES  # noqa: E402

pytestmark = pytest.mark.extras


def reference(config: Config, batch: TokenBatch) -> np.ndarray:
    return forward(config.model, obtain_weights(config.model), batch)["logits"]


def padded(batch: TokenBatch) -> tuple[Any, Any]:
    """The sentences as ids [sentences, longest], with a word beyond their ends, and their lengths."""
    lengths = torch.from_numpy(batch.lengths)
    ids = torch.full((len(batch), int(lengths.max())), 5)
    for row, (first, end) in enumerate(zip(batch.offsets[:-1], batch.offsets[1:], strict=True)):
        ids[row, : end - first] = torch.from_numpy(batch.ids[first:end])
    return ids, lengths


def ragged(config: Config) -> TokenBatch:
    return networks.sentences(config.model, networks.lengths_of(config.model, 7))


def test_a_network_gives_the_logits_of_the_reference(tiny: Config) -> None:
    batch = ragged(tiny)
    found = to_torch(tiny.path).double()(*padded(batch))
    np.testing.assert_allclose(found.detach().numpy(), reference(tiny, batch), rtol=1e-12, atol=1e-12)


def test_a_classifier_gives_the_logits_of_the_reference(tiny: Config) -> None:
    batch = ragged(tiny)
    classifier = Classifier(to_torch(tiny.path).double())
    found = classifier(torch.from_numpy(batch.ids), torch.from_numpy(batch.offsets))
    np.testing.assert_allclose(found.numpy(), reference(tiny, batch), rtol=1e-12, atol=1e-12)


def test_the_shipped_model(tiny: Config) -> None:
    config = load_config("sentiment")
    ids = torch.randint(2, config.model.vocabulary_size, (3, 12), generator=torch.Generator().manual_seed(3))
    expected = reference(config, TokenBatch.from_rows(ids.numpy()))
    np.testing.assert_allclose(Classifier.load("sentiment")(ids).numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("fully_connected", "residual"),
    [((2,), ()), ((7, 2), ()), ((7, 5, 2), ()), ((6, 2), (0,)), ((6, 6, 5, 2), (0, 1)), ((7, 7, 2), (1,))],
    ids=str,
)
def test_layers_behind_the_experts(fully_connected: tuple[int, ...], residual: tuple[int, ...]) -> None:
    sizes = {**SIZES, "fully_connected": fully_connected, "residual": residual}
    network = Network(**sizes).double()
    ids = torch.randint(0, 40, (4, 9))
    torch.testing.assert_close(Classifier(network)(ids), network(ids).detach())


@pytest.mark.parametrize("number", [0, 1, 3, -1, 9])
def test_a_shortcut_where_none_can_be(number: int) -> None:
    with pytest.raises(UsageError, match=rf"residual has {number}, .* sizes are \[6, 7, 5, 5, 5\]"):
        Network(**{**SIZES, "fully_connected": (7, 5, 5, 5), "residual": (number,)})


@pytest.mark.parametrize("sizes", [{"widths": (3, 3)}, {"fully_connected": ()}], ids=str)
def test_sizes_that_make_no_network(sizes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"Network: widths .*; name each width once, and one layer at least"):
        Network(**{**SIZES, **sizes})


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 5e-3), (torch.bfloat16, 5e-2)])
def test_half_precision(dtype: Any, tolerance: float) -> None:
    network = Network(**SIZES)
    ids = torch.randint(0, 40, (4, 9))
    found = Classifier(network.to(dtype))(ids)
    assert found.dtype == dtype
    expected = network.double()(ids).detach()
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_the_names_are_those_of_a_weights_file(tiny: Config) -> None:
    found = {name: tuple(tensor.shape) for name, tensor in Network.of(tiny.model).state_dict().items()}
    assert found == shapes(tiny.model)


def test_nothing_of_a_classifier_is_trained_and_all_of_it_is_saved() -> None:
    network = Network(**SIZES)
    classifier, other = Classifier(network), Classifier(Network(**SIZES))
    assert not list(classifier.parameters())
    other.load_state_dict(classifier.state_dict())
    ids = torch.randint(0, 40, (4, 9))
    torch.testing.assert_close(other(ids), classifier(ids), rtol=0, atol=0)
    before = classifier(ids)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    torch.testing.assert_close(classifier(ids), before, rtol=0, atol=0)


def test_no_sentences() -> None:
    classifier = Classifier(Network(**SIZES))
    assert classifier(torch.zeros((0, 9), dtype=torch.int64)).shape == (0, 2)
    nothing = torch.zeros(0, dtype=torch.int64)
    assert classifier(nothing, torch.zeros(1, dtype=torch.int64)).shape == (0, 2)


def test_what_a_classifier_refuses() -> None:
    classifier = Classifier(Network(**SIZES))
    with pytest.raises(
        UsageError, match=r"ids has shape \[2, 4\], 4 tokens a sentence, but .* takes 5; fill"
    ):
        classifier(torch.zeros((2, 4), dtype=torch.int64))
    with pytest.raises(UsageError, match=r"ids, without offsets, has shape \[9\], 1 dimensions, expected 2"):
        classifier(torch.zeros(9, dtype=torch.int64))
    with pytest.raises(UsageError, match="rows of 64 bytes, expected 128; fold again after a conversion"):
        Classifier(Network(**SIZES)).half()(torch.zeros((2, 9), dtype=torch.int64))
    with pytest.raises(UsageError, match="network is Linear, expected Network; from_torch makes a"):
        Classifier(torch.nn.Linear(2, 2))
