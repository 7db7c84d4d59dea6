"""The steps of the training: AdamW, but one size of step for the whole embedding.

AdamW divides each value's gradient by what is usual for that value. A word that turned up once moves
by about as much in all as one that turned up a hundred times, so that noise of rare words wins maxima.
Divided by one number for all words, a gradient moves a word by how often, and how clearly, it was needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from accel_cli.train.network import Parameters

MOMENTUM, USUAL = 0.9, 0.99  # the shares kept of the mean gradient and of its usual square
DECAY = 0.01


class Steps:
    """Steps down the gradients of `parameters`."""

    def __init__(self, parameters: Parameters) -> None:
        import torch

        self._embedding = parameters["embedding.weight"]
        others = [value for value in parameters.values() if value is not self._embedding]
        self._others = torch.optim.AdamW(others, weight_decay=DECAY, fused=True)
        self._mean = torch.zeros_like(self._embedding)
        self._square = torch.zeros((), device=self._embedding.device)
        self._taken = 0

    def take(self, loss: Tensor, tokens: int, rate: float) -> None:
        """A step for the loss of a batch of so many tokens."""
        import torch

        self._others.zero_grad()
        self._embedding.grad = None
        torch.autograd.backward(loss)
        for group in self._others.param_groups:
            group["lr"] = rate
        self._others.step()
        self._taken += 1
        gradient = self._embedding.grad
        assert gradient is not None
        with torch.no_grad():
            self._mean.lerp_(gradient, 1 - MOMENTUM)
            # of a token's value, not of the table's, most of which a batch does not touch
            square = gradient.square().sum() / (tokens * gradient.shape[1])
            self._square.lerp_(square, 1 - USUAL)
            usual = (self._square / (1 - USUAL**self._taken)).sqrt() + 1e-12
            self._embedding.sub_(self._mean * (rate / usual))
