"""Clients as they are, unmodified, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel_cli.classifier import Classification, Classifier
from accel_cli.model.config import Config
from serve.processes import Running, running, until
from serve.test_lifecycle import begun, in_background

pytestmark = pytest.mark.extras

TEXTS = ["a good film", "", "naïve ☃", "not bad", "a\u0000b", "good " * 100]


@pytest.fixture(scope="module")
def expected(tiny: Config) -> Iterator[Classification]:
    with Classifier(tiny, "cpu") as classifier:
        yield classifier.predict(TEXTS)


@pytest.fixture
def overloaded(tiny_path: Path, tmp_path: Path) -> Iterator[Running]:
    """A server that is full."""
    gate = tmp_path / "gate"
    with running(tiny_path, "--max-inflight", "1", spoiled="gated", GATE=str(gate)) as server:
        waiting = in_background(server, "good")
        until(lambda: begun(gate))
        yield server
        gate.touch()
        waiting.result()


class TestTriton:
    @pytest.fixture
    def http(self) -> Any:
        return pytest.importorskip("tritonclient.http")

    @pytest.fixture
    def triton(self, http: Any, server: Running) -> Iterator[Any]:
        client = http.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=32)
        yield client
        client.close()

    @staticmethod
    def question(http: Any, texts: list[Any], binary: bool = True) -> Any:
        asked = http.InferInput("text", [len(texts)], "BYTES")
        asked.set_data_from_numpy(np.array(texts, dtype=object), binary_data=binary)
        return asked

    def test_health_and_metadata(self, triton: Any) -> None:
        assert triton.is_server_live()
        assert triton.is_server_ready()
        assert triton.is_model_ready("tiny")
        assert triton.is_model_ready("tiny", "1")
        assert not triton.is_model_ready("other")
        assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
        assert triton.get_model_metadata("tiny")["inputs"][0]["datatype"] == "BYTES"

    def test_binary(self, http: Any, triton: Any, expected: Classification) -> None:
        found = triton.infer("tiny", [self.question(http, TEXTS)], request_id="9")
        assert found.get_response()["id"] == "9"
        assert [label.decode() for label in found.as_numpy("label")] == expected.labels.tolist()
        np.testing.assert_allclose(found.as_numpy("score"), expected.scores.max(axis=1), atol=1e-6)

    def test_json(self, http: Any, triton: Any, expected: Classification) -> None:
        outputs = [http.InferRequestedOutput(name, binary_data=False) for name in ("label", "scores")]
        found = triton.infer("tiny", [self.question(http, TEXTS, binary=False)], outputs=outputs)
        assert found.as_numpy("label").tolist() == expected.labels.tolist()
        np.testing.assert_allclose(found.as_numpy("scores"), expected.scores, atol=1e-6)

    def test_all_outputs_as_binary(self, http: Any, triton: Any, expected: Classification) -> None:
        outputs = [http.InferRequestedOutput(name) for name in ("logits", "scores", "score", "label")]
        found = triton.infer("tiny", [self.question(http, TEXTS)], outputs=outputs)
        np.testing.assert_allclose(found.as_numpy("logits"), expected.logits, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.as_numpy("scores"), expected.scores, atol=1e-6)

    def test_bytes_that_are_no_utf8(self, http: Any, triton: Any) -> None:
        assert triton.infer("tiny", [self.question(http, [b"\xff\xfe", b"good"])]).as_numpy(
            "label"
        ).shape == (2,)

    def test_many_at_once(self, http: Any, triton: Any, expected: Classification) -> None:
        asked = [triton.async_infer("tiny", [self.question(http, [TEXTS[i % 6]])]) for i in range(300)]
        for place, one in enumerate(asked):
            score = one.get_result().as_numpy("score")[0]
            assert abs(score - expected.scores[place % 6].max()) < 2e-6

    def test_errors_can_be_read(self, http: Any, triton: Any) -> None:
        exception = pytest.importorskip("tritonclient.utils").InferenceServerException
        for model, texts, words in (
            ("other", ["a"], "unknown model 'other'"),
            ("tiny", ["a"] * 8193, "at most 8192 are taken"),
        ):
            with pytest.raises(exception, match=words):
                triton.infer(model, [self.question(http, texts)])

    def test_overload_can_be_read(self, http: Any, overloaded: Running) -> None:
        exception = pytest.importorskip("tritonclient.utils").InferenceServerException
        client = http.InferenceServerClient(f"127.0.0.1:{overloaded.port}")
        with pytest.raises(exception, match="texts are being worked on") as caught:
            client.infer("tiny", [self.question(http, ["a"])])
        assert caught.value.status() == "429"
        client.close()

    def test_asyncio(self, server: Running, expected: Classification) -> None:
        aio = pytest.importorskip("tritonclient.http.aio")

        async def ask() -> Any:
            client = aio.InferenceServerClient(f"127.0.0.1:{server.port}")
            found = await client.infer("tiny", [self.question(aio, TEXTS)])
            await client.close()
            return found.as_numpy("score")

        np.testing.assert_allclose(asyncio.run(ask()), expected.scores.max(axis=1), atol=1e-6)


class TestHuggingFace:
    @pytest.fixture
    def hub(self) -> Any:
        return pytest.importorskip("huggingface_hub")

    @pytest.mark.parametrize("how", ["base_url", "model"])
    def test_text_classification(self, hub: Any, server: Running, expected: Classification, how: str) -> None:
        client = hub.InferenceClient(**{how: server.url})
        for text, label, scores in zip(TEXTS[:4], expected.labels, expected.scores, strict=False):
            found = client.text_classification(text)
            assert found[0].label == label
            np.testing.assert_allclose([element.score for element in found], sorted(scores)[::-1], atol=1e-6)

    def test_parameters(self, hub: Any, server: Running, expected: Classification) -> None:
        client = hub.InferenceClient(server.url)
        [found] = client.text_classification(TEXTS[0], top_k=1, function_to_apply="none")
        np.testing.assert_allclose(found.score, expected.logits[0].max(), rtol=1e-4, atol=1e-6)

    def test_a_token(self, hub: Any, tiny_path: Path, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("secret")
        with running(tiny_path, "--token-file", tmp_path / "token") as server:
            assert hub.InferenceClient(server.url, token="secret").text_classification("good")
            with pytest.raises(Exception, match="401"):
                hub.InferenceClient(server.url, token="wrong").text_classification("good")

    def test_overload(self, hub: Any, overloaded: Running) -> None:
        with pytest.raises(Exception, match="429"):
            hub.InferenceClient(overloaded.url).text_classification("good")


class TestKServe:
    def test_inference(self, server: Running, expected: Classification) -> None:
        kserve = pytest.importorskip("kserve")

        async def ask() -> None:
            client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=60))
            assert await client.is_server_live(server.url)
            assert await client.is_server_ready(server.url)
            assert await client.is_model_ready(server.url, "tiny")
            for binary in (False, True):
                text = kserve.InferInput("text", [len(TEXTS)], "BYTES")
                text.set_data_from_numpy(np.array(TEXTS, dtype=object), binary_data=binary)
                asked = kserve.InferRequest("tiny", [text])
                found = await client.infer(server.url, asked, model_name="tiny")
                labels = found.outputs[0].as_numpy().tolist()
                assert [getattr(label, "decode", lambda label=label: label)() for label in labels] == (
                    expected.labels.tolist()
                )
                np.testing.assert_allclose(
                    found.outputs[1].as_numpy(), expected.scores.max(axis=1), atol=1e-6
                )
            await client.close()

        asyncio.run(ask())


def test_several_kinds_of_clients_at_once(server: Running, expected: Classification) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def predict(place: int) -> float:
        if place % 2:
            return float(hub.InferenceClient(server.url).text_classification(TEXTS[place % 6])[0].score)
        return float(server.predict(TEXTS[place % 6]).json()[0]["score"])

    with ThreadPoolExecutor(8) as pool:
        for place, score in enumerate(pool.map(predict, range(48))):
            assert abs(score - expected.scores[place % 6].max()) < 2e-6
