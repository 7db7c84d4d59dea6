"""The Open Inference Protocol, version 2, with the binary tensor extension."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from accel_cli import __version__
from accel_cli.batches import Predictions, TextBatch
from accel_cli.serve.json_body import read_json
from accel_cli.serve.labels import Labels
from accel_cli.serve.limits import Limits
from accel_cli.serve.questions import Found, checked_count, encoded, shown
from accel_cli.serve.refusals import malformed
from accel_cli.serve.replies import BINARY, Reply
from accel_cli.serve.tensors import read_bytes

HEADER = b"inference-header-content-length"
VERSION = "1"
INPUT = "text"
OUTPUTS = {"label": "BYTES", "score": "FP32", "scores": "FP32", "logits": "FP32"}
_USUAL = ("label", "score")


def server_metadata() -> dict[str, Any]:
    """What `GET /v2` says."""
    return {"name": "accel", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(name: str, platform: str, labels: int) -> dict[str, Any]:
    """What `GET /v2/models/NAME` says."""
    shapes = {"label": [-1], "score": [-1], "scores": [-1, labels], "logits": [-1, labels]}
    return {
        "name": name,
        "versions": [VERSION],
        "platform": platform,
        "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": output, "datatype": datatype, "shape": shapes[output]}
            for output, datatype in OUTPUTS.items()
        ],
    }


@dataclass(frozen=True)
class V2Question:
    """An inference request; `outputs` are those asked for, and whether each comes as binary data."""

    texts: TextBatch
    model: str
    identity: str | None
    outputs: dict[str, bool]
    may_cut: bool = True

    def answer(self, found: Found, labels: Labels) -> Reply:
        """The tensors, the binary ones behind the JSON that describes them."""
        described, tail = [], []
        for name, binary in self.outputs.items():
            shape, data = _output(name, binary, found.predictions, labels)
            tensor: dict[str, Any] = {"name": name, "shape": shape, "datatype": OUTPUTS[name]}
            if isinstance(data, bytes):
                tensor["parameters"] = {"binary_data_size": len(data)}
                tail.append(data)
            else:
                tensor["data"] = data
            described.append(tensor)
        frame: dict[str, Any] = {"model_name": self.model, "model_version": VERSION}
        if self.identity is not None:
            frame["id"] = self.identity
        if found.truncated:
            frame["parameters"] = {"truncated": found.truncated}
        head = json.dumps({**frame, "outputs": described}).encode()
        if not tail:
            return Reply(head)
        return Reply(b"".join([head, *tail]), media_type=BINARY, headers=[(HEADER, b"%d" % len(head))])


def _output(
    name: str, binary: bool, predictions: Predictions, labels: Labels
) -> tuple[list[int], bytes | list[Any]]:
    """The shape of an output, and its elements as bytes or as a list."""
    if name == "label":
        chosen = predictions.labels
        return [len(chosen)], labels.tensor(chosen) if binary else labels.named(chosen)
    if name == "score":
        values = predictions.scores[np.arange(len(predictions)), predictions.labels]
    else:
        values = {"scores": predictions.scores, "logits": predictions.logits}[name]
    shape = list(values.shape)
    return shape, values.astype("<f4", copy=False).tobytes() if binary else values.ravel().tolist()


def read_v2(body: bytes, header: str | None, model: str, limits: Limits) -> V2Question:
    """The question that a body asks, of whose bytes the first `header` are JSON; or a Refusal."""
    if header is None:
        head, tail = body, b""
    elif not header.isascii() or not header.isdigit() or len(header) > 12 or int(header) > len(body):
        raise malformed(
            f"Inference-Header-Content-Length: {header[:40]!r} is not a number of bytes of this body,"
            f" which has {len(body)}"
        )
    elif int(header) == 0:  # a raw request: the body is the text
        return V2Question(TextBatch.of([body]), model, None, dict.fromkeys(_USUAL, True))
    else:
        head, tail = body[: int(header)], body[int(header) :]
    asked = read_json(head, limits)
    identity = asked.get("id")
    if identity is not None and not isinstance(identity, str):
        raise malformed(f"id: expected a string, got {shown(identity)}")
    return V2Question(_texts(asked, tail, limits), model, identity, _outputs(asked))


def _texts(asked: dict[str, Any], tail: bytes, limits: Limits) -> TextBatch:
    """The texts of the one input there is."""
    inputs = asked.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise malformed(f"inputs: expected a list of one tensor, named {INPUT!r}")
    tensor = inputs[0]
    if tensor.get("name") != INPUT:
        raise malformed(f"inputs: unknown tensor {shown(tensor.get('name'))}; this model takes {INPUT!r}")
    if tensor.get("datatype") != "BYTES":
        raise malformed(f"{INPUT}: expected the datatype BYTES, got {shown(tensor.get('datatype'))}")
    count = checked_count(_count(tensor.get("shape")), limits)
    size = _parameters(tensor, INPUT).get("binary_data_size")
    if size is not None:
        if type(size) is not int or size != len(tail):
            raise malformed(f"{INPUT}: binary_data_size {shown(size)}, but {len(tail)} bytes follow the JSON")
        if "data" in tensor:
            raise malformed(f"{INPUT}: both data and binary_data_size; send one of them")
        return read_bytes(tail, count, limits.max_text_bytes)
    if tail:
        raise malformed(f"{len(tail)} bytes follow the JSON, but {INPUT} has no binary_data_size")
    texts = _flat(tensor.get("data"))
    if len(texts) != count:
        raise malformed(f"{INPUT}: its shape has {count} elements, its data {len(texts)}")
    return encoded(texts, INPUT)


def _count(shape: Any) -> int:
    """The elements of a shape, [n] or [n, 1]."""
    whole = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
        raise malformed(f"{INPUT}: expected the shape [n] or [n, 1], got {json.dumps(shape)[:40]}")
    return prod(shape)


def _flat(data: Any) -> list[Any]:
    """The elements of JSON data, nested or flat."""
    if not isinstance(data, list):
        raise malformed(f"{INPUT}: expected a list as data, or binary_data_size, got {shown(data)}")
    if not any(isinstance(entry, list) for entry in data):
        return data
    return [text for entry in data for text in (entry if isinstance(entry, list) else [entry])]


def _outputs(asked: dict[str, Any]) -> dict[str, bool]:
    """The outputs asked for and whether each is binary: label and score unless it is said."""
    binary = bool(_parameters(asked, "the request").get("binary_data_output", False))
    wanted = asked.get("outputs")
    if not wanted and wanted in (None, []):
        return dict.fromkeys(_USUAL, binary)
    if not isinstance(wanted, list) or not all(isinstance(output, dict) for output in wanted):
        raise malformed(f"outputs: expected a list of objects with a name, got {shown(wanted)}")
    found: dict[str, bool] = {}
    for output in wanted:
        name = output.get("name")
        if not isinstance(name, str) or name not in OUTPUTS:
            raise malformed(f"outputs: {shown(name)} is not one of {', '.join(OUTPUTS)}")
        if name in found:
            raise malformed(f"outputs: {name} is asked for twice")
        found[name] = bool(_parameters(output, name).get("binary_data", binary))
    return found


def _parameters(owner: dict[str, Any], place: str) -> dict[str, Any]:
    found = owner.get("parameters")
    if found is not None and not isinstance(found, dict):
        raise malformed(f"{place}: expected an object as parameters, got {shown(found)}")
    return found or {}
