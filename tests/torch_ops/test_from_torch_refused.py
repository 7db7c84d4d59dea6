"""What from_torch refuses, and why: modules that are not of the family, words and labels that are none."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from accel_cli.errors import AccelError, ConfigError, UsageError, WeightsError  # noqa: E402
from accel_cli.torch import Parts, from_torch  # noqa: E402
from torch_ops.test_from_torch import LABELS, Mixture, TextCNN  # noqa: E402

pytestmark = pytest.mark.extras


def test_a_vocabulary_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="words has 3 words, but the module's embedding has 40; give one for each"
    ):
        from_torch(TextCNN(), tmp_path / "m", labels=LABELS, words=["<unk>", "<pad>", "good"])
    with pytest.raises(WeightsError, match="begins with the lines <unk> and <pad>"):
        from_torch(TextCNN(), tmp_path / "m", labels=LABELS, words=[f"w{number}" for number in range(40)])


@pytest.mark.parametrize("word", [b"good", None, "\ud800"])
def test_a_word_that_is_none(tmp_path: Path, word: Any) -> None:
    words = ["<unk>", "<pad>", word, *(f"w{number}" for number in range(37))]
    with pytest.raises(UsageError, match=r"words\[2\] is .*; give a str that UTF-8 can hold"):
        from_torch(TextCNN(), tmp_path / "m", labels=LABELS, words=words)


class Other(TextCNN):
    """With one thing that the family does not have."""

    def __init__(self, what: str) -> None:
        super().__init__((2,))
        self.what = what
        if what == "norm":
            self.norm = nn.LayerNorm(20)

    def forward(self, ids: Any) -> Any:
        x = self.emb(ids).transpose(1, 2)
        activation = torch.tanh if self.what == "tanh" else torch.relu
        features = torch.cat([activation(conv(x)).max(dim=2).values for conv in self.convs], dim=1)
        logits = self.head(self.norm(features) if self.what == "norm" else features)
        if self.what == "softmax":
            return torch.softmax(logits, 1)
        if self.what == "pair":
            return logits, features
        if self.what == "one":
            return logits.argmax(1)
        if self.what == "imaginary":
            return logits + 0j
        if self.what == "half":
            return logits + torch.zeros(3)
        return logits


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("tanh", "the module and the model made of Parts.* differ on sentences of 4 tokens"),
        ("softmax", "the module must give logits, without a softmax"),
        (
            "norm",
            "Other has parameters that are in none of the layers Parts.*: norm.weight, norm.bias; the family",
        ),
        ("pair", "the module gives a tuple; it must give a tensor of logits"),
        ("imaginary", "the module gives torch.complex128; it must give logits that are real numbers"),
        (
            "one",
            r"the module gives \[4\], the model made of Parts.* gives \[4, 2\]; the module must give logits",
        ),
        (
            "half",
            r"the module does not run on int64 ids \[4, 4\], in float64 on the CPU: RuntimeError: The size",
        ),
    ],
)
def test_what_is_not_of_the_family(tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        from_torch(Other(what), tmp_path / "m", labels=LABELS)
    assert list(tmp_path.iterdir()) == []


def test_layers_that_are_not_of_the_family(tmp_path: Path) -> None:
    def refused(module: nn.Module, message: str, parts: Parts | None = None) -> None:
        with pytest.raises(ConfigError, match=message):
            from_torch(module, tmp_path / "m", labels=LABELS, parts=parts)

    refused(TextCNN(padding=1), r"convs.0 has stride, padding, dilation and groups \(\(1,\), \(1,\), ")
    refused(
        nn.Sequential(nn.Linear(2, 2)), "Sequential has 0 Embedding and 0 Conv1d layers; a model needs one"
    )
    headless = nn.Sequential(nn.Embedding(40, 12), nn.Conv1d(12, 10, 2))
    refused(headless, "Sequential has no Linear layer that takes the 10 features")
    twice = TextCNN()
    twice.convs[1] = nn.Conv1d(12, 10, 2)
    refused(twice, r"convs.0, convs.1 have the widths \[2, 2\] and \[10, 10\] filters")
    refused(Mixture(), "Mixture has no layer 'gone'", Parts("gone", ("wide",), ("out",)))
    refused(Mixture(), "wide is a Conv1d, expected Embedding", Parts("wide", ("wide",), ("out",)))
    elsewhere = Parts("words", ("wide",), ("out",), residual=("first",))
    refused(Mixture(), "has first in residual, but not in fc; name it there, too", elsewhere)
    gate_alone = Parts("words", ("narrow", "wide"), ("first", "second", "out"), "router")
    refused(Mixture(), "has no fully connected layer, or a gate or experts alone; name them all", gate_alone)


@pytest.mark.parametrize("module", [None, "TextCNN", TextCNN, torch.zeros(2)], ids=repr)
def test_what_is_no_module(tmp_path: Path, module: Any) -> None:
    with pytest.raises(UsageError, match="from_torch takes a module, got "):
        from_torch(module, tmp_path / "m", labels=LABELS)


def broken(what: str) -> nn.Module:
    """A module of the family, but for one thing."""
    module = TextCNN((2,))
    if what == "meta":
        return module.to("meta")
    if what == "lazy":
        module.head[1] = nn.LazyLinear(2)
    if what == "complex":
        module.head[1] = nn.Linear(20, 2, dtype=torch.complex64)
    if what == "lock":
        module.lock = threading.Lock()
    if what == "nan":
        module.head[1].weight.data[0, 0] = float("nan")
    return module


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("meta", "TextCNN has no values in emb.weight yet; load or train it first"),
        ("lazy", "TextCNN has no values in head.1.weight yet"),
        ("complex", "head.1.weight is torch.complex64; convert it to a floating-point type"),
        ("lock", "the module cannot be copied, to be run in float64 on the CPU: TypeError: .*take out of it"),
        ("nan", r"/m/model.safetensors does not fit the configuration: experts.0.weight holds NaN"),
    ],
)
def test_modules_without_numbers_to_take(tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(AccelError, match=message):
        from_torch(broken(what), tmp_path / "m", labels=LABELS)
    assert list(tmp_path.iterdir()) == []


def test_labels_are_a_list(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="labels is 'ab'; give a list, a label for each logit"):
        from_torch(TextCNN(), tmp_path / "m", labels="ab")


def test_labels_are_as_many_as_logits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fully_connected ends in 2 outputs but model\.labels has 3"):
        from_torch(TextCNN(), tmp_path / "m", labels=("a", "b", "c"))
