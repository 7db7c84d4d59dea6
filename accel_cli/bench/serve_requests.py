"""Requests as bytes on the wire, and whether what comes back is the answer to exactly these sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats, Predictions

TEI, V2_JSON, V2_BINARY = "TEI JSON", "v2 JSON", "v2 binary"
_HEADER = b"inference-header-content-length"


@dataclass(frozen=True)
class Request:
    """Sentences `begin` to `end` in a protocol. `raw` asks for logits, which tell sentences best apart."""

    protocol: str
    begin: int
    end: int
    raw: bool
    payload: bytes

    def __len__(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Response:
    """An answer; status 0 if the connection ended without one."""

    status: int
    head: bytes = b""
    body: bytes = b""


class Requests:
    """Makes requests for the sentences of a model."""

    def __init__(self, model: str, lines: Sequence[bytes]) -> None:
        self._model, self._lines = model, lines

    def single(self, place: int, *, raw: bool = False) -> Request:
        """One sentence by Text Embeddings Inference's protocol."""
        asked: dict[str, Any] = {
            "inputs": self._lines[place].decode(),
            **({"raw_scores": True} if raw else {}),
        }
        return Request(TEI, place, place + 1, raw, _post("/predict", json.dumps(asked).encode()))

    def several(self, protocol: str, begin: int, count: int, *, raw: bool = False) -> Request:
        """Some sentences by the Open Inference Protocol."""
        lines = self._lines[begin : begin + count]
        text: dict[str, Any] = {"name": "text", "datatype": "BYTES", "shape": [len(lines)]}
        asked: dict[str, Any] = {"inputs": [text]}
        if raw:
            asked["outputs"] = [{"name": "label"}, {"name": "logits"}]
        tail = b""
        if protocol == V2_BINARY:
            tail = b"".join(len(line).to_bytes(4, "little") + line for line in lines)
            text["parameters"] = {"binary_data_size": len(tail)}
            asked["parameters"] = {"binary_data_output": True}
        else:
            text["data"] = [line.decode() for line in lines]
        head = json.dumps(asked).encode()
        header = b"%s: %d\r\n" % (_HEADER, len(head)) if tail else b""
        path = f"/v2/models/{self._model}/infer"
        return Request(protocol, begin, begin + len(lines), raw, _post(path, head + tail, header))

    def cut(self, protocol: str, size: int, *, raw: bool = False) -> list[Request]:
        """All sentences, `size` a request; what is left over at the end is left out."""
        if protocol == TEI:
            return [self.single(place, raw=raw) for place in range(len(self._lines))]
        begins = range(0, len(self._lines) - size + 1, size)
        return [self.several(protocol, begin, size, raw=raw) for begin in begins]


class Answers:
    """The right answers, and how far from them an answer may be."""

    def __init__(self, labels: Sequence[str], predictions: Predictions, tolerance: float) -> None:
        self._labels, self._tolerance = labels, tolerance
        self._values = {True: predictions.logits, False: predictions.scores}

    def right(self, request: Request, response: Response) -> bool:
        """Whether this answers this request; nothing that comes from a server makes it raise."""
        expected = self._values[request.raw][request.begin : request.end]
        try:
            if request.protocol == TEI:
                chosen, values = self._ranked(json.loads(response.body))
            else:
                chosen, values = _tensors(response, request.raw)
                if not request.raw:
                    values, best = values.ravel(), expected.max(axis=1)
                    return self._close(values, best) and self._likeliest(chosen, expected)
            return self._close(values.reshape(expected.shape), expected) and self._likeliest(chosen, expected)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return False

    def _ranked(self, row: list[dict[str, Any]]) -> tuple[list[str], Floats]:
        """The first label, and the values in the model's order."""
        values = {entry["label"]: entry["score"] for entry in row}
        return [row[0]["label"]], np.array([values[label] for label in self._labels], dtype=np.float32)

    def _close(self, values: Floats, expected: Floats) -> bool:
        if values.shape != expected.shape:
            return False
        bound = self._tolerance * np.maximum(1.0, np.abs(expected))
        return bool((np.abs(values - expected) <= bound).all())  # NaN is within no bound

    def _likeliest(self, chosen: Sequence[str], expected: Floats) -> bool:
        """Whether each chosen label is the likeliest, or so close to it that rounding may have chosen."""
        places = np.array([self._labels.index(label) for label in chosen])
        lead = expected.max(axis=1) - expected[np.arange(len(expected)), places]
        return len(places) == len(expected) and bool(
            (lead <= 2 * self._tolerance * np.maximum(1.0, np.abs(expected).max(axis=1))).all()
        )


def parsed(data: bytearray) -> Response | None:
    """The response that these bytes are, once they are all of it. Only a server of ours is read so simply."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(data[: end + 2]).lower()
    size = _number(head, b"content-length")
    if len(data) < end + 4 + size:
        return None
    return Response(int(head[9:12]), head, bytes(data[end + 4 :]))


def _number(head: bytes, name: bytes) -> int:
    begin = head.index(b"\r\n" + name + b": ") + len(name) + 4
    return int(head[begin : head.index(b"\r\n", begin)])


def _tensors(response: Response, raw: bool) -> tuple[list[str], Floats]:
    """The labels and the values of an answer, binary or not."""
    binary = _HEADER in response.head
    size = _number(response.head, _HEADER) if binary else len(response.body)
    label, value = json.loads(response.body[:size])["outputs"]
    if (label["name"], value["name"]) != ("label", "logits" if raw else "score"):
        raise ValueError("other outputs than asked for")
    if not binary:
        return label["data"], np.array(value["data"], dtype=np.float32)
    middle = size + label["parameters"]["binary_data_size"]
    values = np.frombuffer(response.body, "<f4", offset=middle)
    names, place = [], size
    while place < middle:
        begin = place + 4
        place = begin + int.from_bytes(response.body[place:begin], "little")
        names.append(response.body[begin:place].decode())
    return names, values


def _post(path: str, body: bytes, header: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\nhost: accel\r\n%scontent-length: %d\r\n\r\n%s" % (
        path.encode(),
        header,
        len(body),
        body,
    )
