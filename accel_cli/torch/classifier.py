"""A network folded for inference: token ids in, logits out, by accel's operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from accel_cli.errors import UsageError
from accel_cli.torch.checks import check_dimensions
from accel_cli.torch.convert import to_torch
from accel_cli.torch.convolution import Folded, fold, folded_convolution
from accel_cli.torch.linear import linear_bias_relu
from accel_cli.torch.network import Network


class Classifier(nn.Module):
    """A network whose embedding and convolutions are a table, its experts in the first fully connected layer.

    They stay outside of it where it has a shortcut, which adds what they give.
    For inference: everything is a buffer, of the type and on the device of the network. The table holds
    vocabulary * widths * filters values. Its rows are whole lines of 128 bytes, so it is folded for one type:
    convert the network, not the classifier.
    """

    values: Tensor
    taps: Tensor
    bias: Tensor

    def __init__(self, network: Network) -> None:
        super().__init__()
        if not isinstance(network, Network):
            raise UsageError(
                f"Classifier: network is {type(network).__name__}, expected Network; from_torch makes a"
                " folder of another module, and to_torch a Network of that"
            )
        with torch.no_grad():
            table = fold(network.embedding.weight, [_pair(layer) for layer in network.convolution.values()])
            self.register_buffer("values", table.values)
            self.register_buffer("taps", table.taps)
            self.register_buffer("bias", table.bias)
            self.widths = table.widths
            self.gate = _Dense(network.gate.weight, network.gate.bias)
            self.residual = network.residual
            self.folded = 0 not in network.residual
            self.experts = _folded_experts(network) if self.folded else _experts(network)
            self.fc = nn.ModuleList(_Dense(*_pair(layer)) for layer in list(network.fc)[self.folded :])

    @classmethod
    def load(cls, config: str | Path = "sentiment") -> Classifier:
        """The model of a configuration, a file or a packaged name, float32 on the CPU. Raises AccelError."""
        return cls(to_torch(config))

    def forward(self, ids: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Logits [sentences, labels] of ids [sentences, tokens], or [tokens] with offsets [sentences + 1].

        folded_convolution says what is asked of them.
        """
        if offsets is None:
            check_dimensions("Classifier", "ids, without offsets,", ids, 2, 2)
            sentences, length = ids.shape
            if length < max(self.widths):
                raise UsageError(
                    f"Classifier: ids has shape {list(ids.shape)}, {length} tokens a sentence, but the widest"
                    f" convolution takes {max(self.widths)}; fill them up"
                )
            offsets = torch.arange(sentences + 1, dtype=torch.int32, device=ids.device) * length
        table = Folded(self.values, self.taps, self.bias, self.widths)
        features = folded_convolution(ids.flatten(), offsets, table)
        gate = torch.softmax(self.gate(features), 1)
        each = self.experts(features).unflatten(1, (gate.shape[1], -1))
        values: Tensor = (gate.unsqueeze(1) @ each).squeeze(1)
        if not len(self.fc):
            return values
        if self.folded:
            values = torch.relu(values)
        *hidden, last = self.fc
        for number, layer in enumerate(hidden, int(self.folded)):
            rectified = linear_bias_relu(values, *_pair(layer))
            values = rectified + values if number in self.residual else rectified
        logits: Tensor = last(values)
        return logits


class _Dense(nn.Module):
    """A fully connected layer for inference."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().clone())
        self.register_buffer("bias", bias.detach().clone())

    def forward(self, values: Tensor) -> Tensor:
        return functional.linear(values, self.weight, self.bias)


def _experts(network: Network) -> _Dense:
    """Experts as one layer, [experts * outputs, features]."""
    weights, biases = zip(*map(_pair, network.experts), strict=True)
    return _Dense(torch.cat(weights), torch.cat(biases))


def _folded_experts(network: Network) -> _Dense:
    """Experts and first fully connected layer as one, [experts * outputs, features]; see model.folding."""
    through, after = _pair(network.fc[0])
    experts = [_pair(expert) for expert in network.experts]
    weights = [through.double() @ weight.double() for weight, _ in experts]
    biases = [through.double() @ bias.double() + after.double() for _, bias in experts]
    return _Dense(torch.cat(weights).to(through.dtype), torch.cat(biases).to(after.dtype))


def _pair(layer: Any) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias
