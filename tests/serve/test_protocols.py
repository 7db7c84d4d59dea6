"""The three protocols against a real server: each gives every text its own right answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from accel_cli.classifier import Classification, Classifier
from accel_cli.model.config import Config
from accel_cli.serve.tensors import joined_bytes, read_bytes
from serve.processes import Running

TEXTS = ["a good film", "", "not bad", "naïve ☃ film", "a\u0000b", "two\nlines", "good " * 100]
INFER = "/v2/models/tiny/infer"


@pytest.fixture(scope="module")
def expected(tiny: Config) -> Iterator[Classification]:
    with Classifier(tiny, "cpu") as classifier:
        yield classifier.predict(TEXTS)


def tensor(texts: list[Any], **more: Any) -> dict[str, Any]:
    return {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts, **more}


def best(rows: list[list[dict[str, Any]]]) -> list[str]:
    return [row[0]["label"] for row in rows]


def check_ranked(rows: list[list[dict[str, Any]]], expected: Classification) -> None:
    assert best(rows) == expected.labels.tolist()
    for row, scores in zip(rows, expected.scores, strict=True):
        np.testing.assert_allclose([entry["score"] for entry in row], sorted(scores)[::-1], atol=1e-6)


def test_predict_a_batch(client: httpx.Client, expected: Classification) -> None:
    response = client.post("/predict", json={"inputs": [[text] for text in TEXTS]})
    check_ranked(response.json(), expected)
    assert response.headers["x-truncated"] == "1"
    assert response.headers["x-compute-tokens"] == str(5 * 6 + 24)


def test_predict_one(client: httpx.Client, expected: Classification) -> None:
    for inputs in (TEXTS[0], [TEXTS[0]]):
        row = client.post("/predict", json={"inputs": inputs}).json()
        check_ranked(
            [row], Classification(*(getattr(expected, key)[:1] for key in ("labels", "scores", "logits")))
        )


def test_predict_raw_scores(client: httpx.Client, expected: Classification) -> None:
    row = client.post("/predict", json={"inputs": TEXTS[0], "raw_scores": True}).json()
    np.testing.assert_allclose(
        [e["score"] for e in row], sorted(expected.logits[0])[::-1], rtol=1e-4, atol=1e-6
    )


def test_predict_may_refuse_to_cut(client: httpx.Client) -> None:
    for more in ({"truncate": False}, {"truncation_direction": "Left"}):
        assert client.post("/predict", json={"inputs": TEXTS[0], **more}).status_code == 200
        refused = client.post("/predict", json={"inputs": [["good"], [TEXTS[-1]]], **more})
        assert refused.status_code == 422
        assert "1 of 2 texts are longer than the 24 tokens of this model" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/", "/models/tiny"])
def test_hugging_face(client: httpx.Client, expected: Classification, path: str) -> None:
    check_ranked(client.post(path, json={"inputs": TEXTS, "parameters": {}}).json(), expected)
    one = client.post(path, json={"inputs": TEXTS[0]}).json()
    assert (len(one), len(one[0])) == (1, 2)
    short = client.post(path, json={"inputs": TEXTS, "parameters": {"top_k": 1}}).json()
    assert [len(row) for row in short] == [1] * len(TEXTS)
    raw = client.post(path, json={"inputs": TEXTS[:1], "parameters": {"function_to_apply": "none"}}).json()
    np.testing.assert_allclose(raw[0][0]["score"], expected.logits[0].max(), rtol=1e-4, atol=1e-6)
    sigmoid = client.post(path, json={"inputs": TEXTS[0], "parameters": {"function_to_apply": "sigmoid"}})
    np.testing.assert_allclose(
        sigmoid.json()[0][0]["score"], 1 / (1 + np.exp(-expected.logits[0].max())), rtol=1e-4
    )


def test_v2_as_json(client: httpx.Client, expected: Classification) -> None:
    outputs = [{"name": name} for name in ("label", "score", "scores", "logits")]
    answer = client.post(INFER, json={"id": "7", "inputs": [tensor(TEXTS)], "outputs": outputs}).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("tiny", "1", "7")
    assert answer["parameters"] == {"truncated": 1}
    found = {output["name"]: output for output in answer["outputs"]}
    assert list(found) == ["label", "score", "scores", "logits"]
    assert found["label"]["data"] == expected.labels.tolist()
    assert found["logits"]["shape"] == [len(TEXTS), 2]
    np.testing.assert_allclose(found["score"]["data"], expected.scores.max(axis=1), atol=1e-6)
    np.testing.assert_allclose(found["scores"]["data"], expected.scores.ravel(), atol=1e-6)
    np.testing.assert_allclose(found["logits"]["data"], expected.logits.ravel(), rtol=1e-4, atol=1e-6)


def test_v2_gives_label_and_score_unless_asked(client: httpx.Client) -> None:
    answer = client.post(INFER, json={"inputs": [tensor(["good"])]}).json()
    assert [output["name"] for output in answer["outputs"]] == ["label", "score"]
    assert "id" not in answer
    assert "parameters" not in answer


def test_v2_as_binary(client: httpx.Client, expected: Classification) -> None:
    texts = [text.encode() for text in TEXTS] + [b"\xff\xfe no UTF-8"]
    data = joined_bytes(texts)
    asked = tensor(texts, parameters={"binary_data_size": len(data)})
    del asked["data"]
    head = json.dumps({"inputs": [asked], "parameters": {"binary_data_output": True}}).encode()
    header = {"Inference-Header-Content-Length": str(len(head))}
    response = client.post(INFER, content=head + data, headers=header)
    size = int(response.headers["inference-header-content-length"])
    label, score = json.loads(response.content[:size])["outputs"]
    tail = response.content[size:]
    cut = label["parameters"]["binary_data_size"]
    labels = read_bytes(tail[:cut], len(texts), 0).lines()
    assert labels[:-1] == [name.encode() for name in expected.labels]
    scores = np.frombuffer(tail[cut:], "<f4")
    assert score["parameters"]["binary_data_size"] == 4 * len(texts)
    np.testing.assert_allclose(scores[:-1], expected.scores.max(axis=1), atol=1e-6)


def test_v2_raw(client: httpx.Client, expected: Classification) -> None:
    """The whole body is the text."""
    response = client.post(INFER, content=TEXTS[0], headers={"Inference-Header-Content-Length": "0"})
    size = int(response.headers["inference-header-content-length"])
    assert read_bytes(response.content[size:-4], 1, 0).lines() == [expected.labels[0].encode()]


def test_times_are_told(client: httpx.Client) -> None:
    headers = client.post("/predict", json={"inputs": "good"}).headers
    stages = [float(headers[f"x-{stage}-time"]) for stage in ("tokenization", "queue", "inference")]
    assert 0 <= sum(stages) <= float(headers["x-total-time"]) * 1.001 + 0.01


def test_refusals_reach_the_client(client: httpx.Client) -> None:
    for path, body, code, words in (
        ("/predict", b"", 400, "the body is no JSON"),
        ("/predict", b'{"inputs": []}', 400, "holds no text"),
        ("/predict", b'{"inputs": ["a", "b"]}', 422, "send a batch as"),
        ("/", b'{"inputs": 3}', 422, "expected a text or a list of texts, got 3"),
        (INFER, b'{"inputs": []}', 400, "expected a list of one tensor"),
    ):
        response = client.post(path, content=body)
        assert response.status_code == code
        assert words in response.json()["error"]


def test_what_is_counted(server: Running, client: httpx.Client) -> None:
    before = server.metric("accel_inference_total"), server.metric("accel_truncated_total")
    client.post("/predict", json={"inputs": [[text] for text in TEXTS]})
    assert server.metric("accel_inference_total") == before[0] + len(TEXTS)
    assert server.metric("accel_truncated_total") == before[1] + 1
    text = client.get("/metrics").text
    for name in ("request", "exec", "inference", "rejected", "oom_retries"):
        assert f"# TYPE accel_{name}_total counter" in text
    for name in ("request", "tokenization", "queue", "inference"):
        assert f"# TYPE accel_{name}_duration_seconds histogram" in text
    assert "accel_backend_healthy 1.0" in text
    assert 'model="tiny"' in text
    assert "_created" not in text
