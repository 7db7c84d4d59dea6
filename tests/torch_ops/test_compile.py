"""torch.compile takes the operators and the classifier whole, with the same values and gradients."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from accel_cli.torch import Classifier, Network, fused_relu_add, linear_bias_relu  # noqa: E402
from torch_ops.inputs import linear_inputs, relu_add_inputs  # noqa: E402
from torch_ops.models import SIZES  # noqa: E402

pytestmark = pytest.mark.extras

# With the numbers of rows: the second one makes them a symbol, which costs inductor a minute more.
BACKENDS = [
    ("eager", (3, 8)),
    ("aot_eager", (3, 8)),
    pytest.param(
        "inductor",
        (3,),
        marks=pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++"),
    ),
]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    torch.compiler.reset()


@pytest.mark.parametrize(("backend", "counts"), BACKENDS)
def test_a_block_with_a_shortcut_is_one_graph(backend: str, counts: tuple[int, ...]) -> None:
    def block(x: Any, weight: Any, bias: Any, after: Any) -> Any:
        return fused_relu_add(linear_bias_relu(x, weight, bias) - 1.0, x, after) * 2.0

    compiled = torch.compile(block, backend=backend, fullgraph=True)
    for rows in counts:
        arguments = linear_inputs((rows, 6), torch.float64, gradients=True)
        _, _, after = relu_add_inputs((rows, 6), torch.float64, gradients=True)
        found, expected = compiled(*arguments, after), block(*arguments, after)
        torch.testing.assert_close(found, expected)
        outer = torch.randn_like(expected)
        gradients = torch.autograd.grad(found, (*arguments, after), outer)
        torch.testing.assert_close(gradients, torch.autograd.grad(expected, (*arguments, after), outer))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_classifier_is_one_graph(backend: str) -> None:
    classifier = Classifier(Network(**SIZES))
    compiled = torch.compile(classifier, backend=backend, fullgraph=True)
    for sentences in (2, 5, 6):
        ids = torch.randint(0, SIZES["vocabulary_size"], (sentences, 9))
        torch.testing.assert_close(compiled(ids), classifier(ids))


def test_an_error_keeps_its_words() -> None:
    compiled = torch.compile(fused_relu_add, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"y has shape \[3, 2\], expected \[2, 3\]"):
        compiled(torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(3))
