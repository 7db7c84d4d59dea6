"""Models from PyTorch: modules become folders that accel runs, or are refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from conftest import Accel  # noqa: E402
from torch import nn  # noqa: E402

from accel_cli.classifier import Classifier  # noqa: E402
from accel_cli.errors import ConfigError, OutputError  # noqa: E402
from accel_cli.model.config import Config  # noqa: E402
from accel_cli.torch import Network, Parts, from_torch, to_torch  # noqa: E402
from torch_ops.models import SIZES  # noqa: E402

pytestmark = pytest.mark.extras

LABELS = ("bad", "good")


class TextCNN(nn.Module):
    """As most would write it: no gate, no experts."""

    def __init__(self, sizes: Sequence[int] = (8, 2), **changes: Any) -> None:
        super().__init__()
        self.emb = nn.Embedding(40, 12, padding_idx=1)
        self.convs = nn.ModuleList(nn.Conv1d(12, 10, width, **changes) for width in (2, 4))
        layers: list[nn.Module] = [nn.Dropout()]
        for inputs, outputs in zip((20, *sizes[:-1]), sizes, strict=True):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.head = nn.Sequential(*layers[:-1])

    def forward(self, ids: Any) -> Any:
        x = self.emb(ids).transpose(1, 2)
        return self.head(torch.cat([torch.relu(conv(x)).max(dim=2).values for conv in self.convs], dim=1))


class Mixture(nn.Module):
    """Experts as many as they have outputs, so that a gate looks like an expert; made after them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 12)
        self.wide, self.narrow = nn.Conv1d(12, 9, 4, bias=False), nn.Conv1d(12, 9, 2)
        self.first, self.second = nn.Linear(18, 2), nn.Linear(18, 2)
        self.router = nn.Linear(18, 2)
        self.out = nn.Linear(2, 2)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids).transpose(1, 2)
        pooled = [torch.relu(conv(x)).amax(2) for conv in (self.narrow, self.wide)]
        features = torch.cat(pooled, 1)
        gate = torch.softmax(self.router(features), 1)
        return self.out(gate[:, :1] * self.first(features) + gate[:, 1:] * self.second(features))


class Shortcuts(TextCNN):
    """The first two layers' inputs are added to what ReLU leaves of their outputs."""

    def __init__(self) -> None:
        super().__init__((20, 20, 8, 2))

    def forward(self, ids: Any) -> Any:
        x = self.emb(ids).transpose(1, 2)
        x = torch.cat([torch.relu(conv(x)).amax(2) for conv in self.convs], 1)
        _, first, _, second, _, *rest = self.head
        x = torch.relu(first(x)) + x
        x = torch.relu(second(x)) + x
        for layer in rest:
            x = layer(x)
        return x


FC = ("head.1", "head.3", "head.5", "head.7")
PARTS = Parts("words", ("narrow", "wide"), ("out",), "router", ("first", "second"))


def check(module: nn.Module, config: Config, length: int = 9) -> None:
    """The model's labels and logits on the CPU engine are the module's."""
    ids = np.random.default_rng(1).integers(0, 40, (5, length)).astype(np.int32)
    with Classifier.load(config.path, device="cpu") as classifier, torch.no_grad():
        found = classifier.predict_ids(ids)
        expected = module.eval()(torch.from_numpy(ids).long())
    np.testing.assert_allclose(found.logits, expected.float().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2,), (8, 2), (20, 8, 2)], ids=str)
def test_a_module_without_experts(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    module = TextCNN(sizes)
    check(module, from_torch(module, tmp_path / "m", labels=LABELS))


def test_a_network_of_the_family(tmp_path: Path) -> None:
    module = Network(**SIZES)
    config = from_torch(module, tmp_path / "m", labels=LABELS, length=9)
    assert (config.name, config.model.length, config.model.widths) == ("m", 9, (3, 5))
    check(module, config)


def test_shortcuts_are_written_and_read_back(tmp_path: Path) -> None:
    module = Network(**{**SIZES, "fully_connected": (6, 7, 7, 2), "residual": (0, 2)})
    config = from_torch(module, tmp_path / "m", labels=LABELS)
    assert (config.model.fully_connected, config.model.residual) == ((6, 7, 7, 2), (0, 2))
    assert to_torch(config.path).residual == (0, 2)
    check(module, config)


def test_a_module_with_shortcuts_but_without_experts(tmp_path: Path) -> None:
    module, convolution = Shortcuts(), ("convs.0", "convs.1")
    with pytest.raises(ConfigError, match="which layer is which and has a shortcut"):
        from_torch(module, tmp_path / "m", labels=LABELS)
    with pytest.raises(ConfigError, match=r"residual=\('head.1',\)\) differ"):
        from_torch(
            module, tmp_path / "m", labels=LABELS, parts=Parts("emb", convolution, FC, residual=FC[:1])
        )
    parts = Parts("emb", convolution, FC, residual=FC[:2])
    check(module, from_torch(module, tmp_path / "m", labels=LABELS, parts=parts))


def test_named_parts_go_before_what_is_found(tmp_path: Path) -> None:
    module = Mixture()
    with pytest.raises(
        ConfigError, match=r"(?s)differ on sentences of .* Say by parts= which layer is which"
    ):
        from_torch(module, tmp_path / "m", labels=LABELS)
    assert list(tmp_path.iterdir()) == []
    check(module, from_torch(module, tmp_path / "m", labels=LABELS, parts=PARTS))


def test_there_and_back_changes_no_bit(tiny: Config, tmp_path: Path) -> None:
    network = to_torch(tiny.path)
    config = from_torch(network, tmp_path / "again", labels=tiny.model.labels, max_tokens=24)
    for name, tensor in to_torch(config.path).state_dict().items():
        assert torch.equal(tensor, network.state_dict()[name]), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_modules_of_other_types(tmp_path: Path, dtype: Any) -> None:
    module = TextCNN().to(dtype)
    config = from_torch(module, tmp_path / "m", labels=LABELS)
    assert next(module.parameters()).dtype == dtype
    check(module.float(), config)


def test_a_module_stays_as_it_was(tmp_path: Path) -> None:
    module = TextCNN()
    module.head[2].eval()
    from_torch(module, tmp_path / "m", labels=LABELS)
    assert module.training
    assert not module.head[2].training
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_the_folder_is_one_that_every_command_takes(tmp_path: Path, accel: Accel) -> None:
    words = ["<unk>", "<pad>", "good", "bad", *(f"w{number}" for number in range(36))]
    module = TextCNN()
    config = from_torch(module, tmp_path / "m", labels=LABELS, words=words)
    done = accel("run", "--config", config.path.parent, "--device", "cpu", stdin=b"good film\nbad film\n")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr
    done = accel("validate", "--config", config.path.parent, "--device", "cpu")
    assert done.returncode == 0, done.stderr


def test_without_words_no_text_has_a_known_one(tmp_path: Path) -> None:
    config = from_torch(TextCNN(), tmp_path / "m", labels=LABELS)
    with Classifier.load(config.path, device="cpu") as classifier:
        found = classifier.predict(["<2> <3> w2 2", "x y z z y x 1"])
        assert classifier.tokenizer.encode([b"<2> 2 w2"]).batch.ids.tolist() == [0] * 5
    assert len(found) == 2


def test_a_folder_that_is_there(tmp_path: Path) -> None:
    from_torch(TextCNN(), tmp_path / "m", labels=LABELS)
    with pytest.raises(OutputError, match="exists already"):
        from_torch(TextCNN(), tmp_path / "m", labels=LABELS)
    module = TextCNN((2,))
    check(module, from_torch(module, tmp_path / "m", labels=LABELS, overwrite=True))
