"""PyTorch in the precision of a plan: what its tensors are, and what it may round them to."""

from __future__ import annotations

from typing import Any

_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def peer_precision(precision: str) -> str:
    """The nearest that PyTorch has: it splits nothing, so that fp32 stands beside fp32-split."""
    return "fp32" if precision == "fp32-split" else precision


def dtype_of(torch: Any, precision: str) -> Any:
    """The type of weights and activations; of tf32 float32, which products round."""
    return getattr(torch, _DTYPES.get(precision, "float32"))


def set_precision(torch: Any, precision: str) -> None:
    """Products and convolutions of float32 are exact, unless it is tf32: by default cuDNN would round.

    And its fastest way may be looked for.
    """
    rounded = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = rounded
    torch.backends.cudnn.allow_tf32 = rounded
    torch.backends.cudnn.benchmark = True
