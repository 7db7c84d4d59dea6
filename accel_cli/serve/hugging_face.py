"""`POST /` in the nested shape of Hugging Face's text-classification pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats, TextBatch
from accel_cli.serve.json_body import read_json
from accel_cli.serve.labels import Labels
from accel_cli.serve.limits import Limits
from accel_cli.serve.questions import Found, checked_count, encoded, shown
from accel_cli.serve.refusals import invalid
from accel_cli.serve.replies import Reply

_FUNCTIONS = ("softmax", "sigmoid", "none")


@dataclass(slots=True)
class HuggingFaceQuestion:
    """Texts, each answered by a list of its `top` labels."""

    texts: TextBatch
    top: int | None
    function: str
    may_cut: bool = True

    def answer(self, found: Found, labels: Labels) -> Reply:
        """A list for each text, also if there is but one."""
        return Reply(f"[{', '.join(labels.ranked(self._values(found), self.top))}]".encode())

    def _values(self, found: Found) -> Floats:
        if self.function == "softmax":
            return found.predictions.scores
        if self.function == "none":
            return found.predictions.logits
        with np.errstate(over="ignore"):
            values: Floats = np.reciprocal(1 + np.exp(-found.predictions.logits), dtype=np.float32)
        return values


def read_hugging_face(body: bytes, limits: Limits) -> HuggingFaceQuestion:
    """The question that a body asks, or a Refusal."""
    asked = read_json(body, limits)
    inputs = asked.get("inputs")
    if isinstance(inputs, str):
        inputs = [inputs]
    if not isinstance(inputs, list):
        raise invalid(f"inputs: expected a text or a list of texts, got {shown(inputs)}")
    checked_count(len(inputs), limits)
    parameters = asked.get("parameters")
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict):
        raise invalid(f"parameters: expected an object, got {shown(parameters)}")
    return HuggingFaceQuestion(encoded(inputs, "inputs", invalid), _top(parameters), _function(parameters))


def _top(parameters: dict[str, Any]) -> int | None:
    top = parameters.get("top_k")
    if top is not None and (type(top) is not int or top < 1):
        raise invalid(f"parameters.top_k: expected a whole number of at least 1, got {shown(top)}")
    return top


def _function(parameters: dict[str, Any]) -> str:
    function = parameters.get("function_to_apply") or "softmax"
    if function not in _FUNCTIONS:
        raise invalid(
            f"parameters.function_to_apply: expected one of {', '.join(_FUNCTIONS)}, got {shown(function)}"
        )
    return str(function)
