# ruff: noqa: E402 - without PyTorch nothing below can be imported, and the reason comes first
"""accel for PyTorch: fused operators, the network as modules, and models to and from PyTorch.

The operators are torch.ops.accel.*. On CUDA they run accel's kernels, on PyTorch's current stream and on
its memory; elsewhere PyTorch's own operations.
"""

from accel_cli.errors import UsageError


class TorchMissing(UsageError, ImportError):
    """PyTorch is not installed."""


try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise TorchMissing(
        f'accel_cli.torch needs PyTorch ({error}): in a checkout, say pip install ".[torch]"'
    ) from error

from accel_cli.torch.classifier import Classifier
from accel_cli.torch.convert import from_torch, to_torch
from accel_cli.torch.convolution import Folded, fold, folded_convolution
from accel_cli.torch.linear import linear_bias_relu
from accel_cli.torch.network import Network
from accel_cli.torch.parts import Parts
from accel_cli.torch.relu_add import fused_relu_add

__all__ = [
    "Classifier",
    "Folded",
    "Network",
    "Parts",
    "TorchMissing",
    "fold",
    "folded_convolution",
    "from_torch",
    "fused_relu_add",
    "linear_bias_relu",
    "to_torch",
]
