"""What a server says of itself."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from accel_cli import __version__
from serve.processes import Running


@pytest.mark.parametrize("path", ["/health", "/ready", "/v2/health/live", "/v2/health/ready"])
def test_health_and_readiness(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response.json()["live"] is True
    assert response.headers["content-type"] == "application/json"


def test_readiness_satisfies_the_specification_and_kserve(client: httpx.Client) -> None:
    assert client.get("/v2/health/ready").json() == {"live": True, "ready": True}


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_the_model(client: httpx.Client, version: str) -> None:
    assert client.get(f"/v2/models/tiny{version}/ready").json() == {"name": "tiny", "ready": True}
    described = client.get(f"/v2/models/tiny{version}").json()
    assert (described["name"], described["versions"], described["platform"]) == ("tiny", ["1"], "accel_cpu")
    assert described["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert {output["name"]: (output["datatype"], output["shape"]) for output in described["outputs"]} == {
        "label": ("BYTES", [-1]),
        "score": ("FP32", [-1]),
        "scores": ("FP32", [-1, 2]),
        "logits": ("FP32", [-1, 2]),
    }


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_the_server(client: httpx.Client, path: str) -> None:
    assert client.get(path).json() == {
        "name": "accel",
        "version": __version__,
        "extensions": ["binary_tensor_data"],
    }


def test_info(client: httpx.Client) -> None:
    info = client.get("/info").json()
    assert info["model_id"] == "tiny"
    assert info["model_type"]["classifier"] == {
        "id2label": {"0": "negative", "1": "positive"},
        "label2id": {"negative": 0, "positive": 1},
    }
    assert (info["max_client_batch_size"], info["max_concurrent_requests"]) == (8192, 512)
    assert (info["max_input_length"], info["auto_truncate"], info["status"]) == (24, True, "ready")
    assert info["plan"]["device"] == "cpu"
    assert info["max_batch_tokens"] == info["plan"]["batch"] * 24


def test_what_is_not_there(client: httpx.Client) -> None:
    for method, path, code in (
        ("GET", "/nothing", 404),
        ("GET", "/v2/models/other", 404),
        ("POST", "/v2/models/other/infer", 404),
        ("POST", "/models/other", 404),
        ("GET", "/v2/models/tiny/versions/2", 404),
        ("GET", "/predict", 405),
        ("PUT", "/", 405),
        ("POST", "/health", 405),
        ("GET", "/predict/", 404),
    ):
        response = client.request(method, path)
        assert response.status_code == code, (method, path)
        assert response.json()["error_type"] == "not_found"
    assert "unknown model 'other'; this server has 'tiny'" in client.get("/v2/models/other").json()["error"]
    assert "unknown version '2'; there is '1'" in client.get("/v2/models/tiny/versions/2").json()["error"]
    assert "GET '/nothing' is not served; GET /openapi.json" in client.get("/nothing").json()["error"]
    assert client.get("/predict").headers["allow"] == "POST"


def test_the_page_by_accept(client: httpx.Client) -> None:
    page = client.get("/", headers={"accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert not re.search(r'(src|href)="(?!data:)', page.text)  # nothing from elsewhere
    assert client.get("/", headers={"accept": "*/*"}).json()["model_id"] == "tiny"
    assert client.head("/").status_code == 200


def test_the_interface_describes_itself(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    assert "components" not in described
    for path, operations in described["paths"].items():
        for method in operations:
            code = client.request(method, path).status_code
            assert code == (200 if method == "get" else 400), path
    shown = json.dumps(described)
    assert "8192" in shown
    assert '"429"' in shown


def test_identity_of_a_request(client: httpx.Client, server: Running) -> None:
    given = client.get("/health", headers={"x-request-id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    odd = client.get("/health", headers={"x-request-id": "two words"})
    assert re.fullmatch(r"[0-9a-f]{12}-\d+", odd.headers["x-request-id"])
    logged = server.event("request", id="mine-1")
    assert (logged["method"], logged["path"], logged["code"]) == ("GET", "/health", 200)
