"""`POST /predict` as Text Embeddings Inference has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from accel_cli.batches import TextBatch
from accel_cli.serve.json_body import read_json
from accel_cli.serve.labels import Labels
from accel_cli.serve.limits import Limits
from accel_cli.serve.questions import Found, checked_count, encoded, shown
from accel_cli.serve.refusals import invalid
from accel_cli.serve.replies import Reply


@dataclass(slots=True)
class TeiQuestion:
    """One text, answered by a list of labels, or a batch, answered by a list of such lists."""

    texts: TextBatch
    single: bool
    may_cut: bool
    raw: bool

    def answer(self, found: Found, labels: Labels) -> Reply:
        """All labels of each text, the likeliest first."""
        rows = labels.ranked(found.predictions.logits if self.raw else found.predictions.scores)
        return Reply((rows[0] if self.single else f"[{', '.join(rows)}]").encode())


def read_tei(body: bytes, limits: Limits) -> TeiQuestion:
    """The question that a body asks, or a Refusal."""
    asked = read_json(body, limits)
    texts, single = _texts(asked.get("inputs"), limits)
    truncate = _choice(asked, "truncate", (True, False, None), True)
    direction = _choice(asked, "truncation_direction", ("Right", "Left", "right", "left"), "Right")
    raw = _choice(asked, "raw_scores", (True, False), False)
    # what is too long is cut at its end and nowhere else
    may_cut = truncate is not False and direction.lower() == "right"
    return TeiQuestion(encoded(texts, "inputs", invalid), single, may_cut, raw)


def _texts(inputs: Any, limits: Limits) -> tuple[list[Any], bool]:
    """The texts, and whether it is a single one: "text" or ["text"], while a batch is [["a"], ["b"]]."""
    if isinstance(inputs, str):
        return [inputs], True
    if not isinstance(inputs, list):
        raise invalid(f'inputs: expected a text, or a batch as [["a"], ["b"]], got {shown(inputs)}')
    checked_count(len(inputs), limits)
    if not any(isinstance(entry, list) for entry in inputs):
        return [_alone(inputs)], True
    if not all(isinstance(entry, list) for entry in inputs):
        raise invalid('inputs: a batch is a list of lists, as [["a"], ["b"]]; these are mixed with texts')
    return [_alone(entry) for entry in inputs], False


def _alone(entry: list[Any]) -> Any:
    """The one text of a list; two are a pair, which this model does not take."""
    if len(entry) != 1:
        raise invalid(
            f"inputs: [{len(entry)} texts] is one input of {len(entry)} parts, and this model takes single"
            ' texts; send a batch as [["a"], ["b"]]'
        )
    return entry[0]


def _choice(asked: dict[str, Any], key: str, allowed: tuple[Any, ...], default: Any) -> Any:
    if key not in asked:
        return default
    value = asked[key]
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed):
        raise invalid(f"{key}: expected one of {json.dumps(allowed)[1:-1]}, got {shown(value)}")
    return value
