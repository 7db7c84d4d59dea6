"""The way in from Python, on the CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel_cli
from accel_cli import Classifier
from accel_cli.errors import AccelError, ConfigError, DeviceError, InputError, UsageError, WeightsError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.reference import forward, softmax

TEXTS = ["a good film", "not a bad film .", "", "isn't it good", "\x00", "ünïcödé 😀", "the " * 400, "x\ny"]


@pytest.fixture(scope="module")
def classifier(tiny_path: Path) -> Iterator[Classifier]:
    with Classifier.load(tiny_path, device="cpu", batch=3) as made:
        yield made


def check_same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one.logits, other.logits, rtol=1e-5, atol=1e-6)
    assert one.labels.tolist() == other.labels.tolist()


def test_predictions_are_those_of_the_reference(classifier: Classifier, tiny: Config) -> None:
    found = classifier.predict(TEXTS)
    batch = classifier.tokenizer.encode([text.encode() for text in TEXTS]).batch
    logits = forward(tiny.model, obtain_weights(tiny.model), batch)["logits"]
    np.testing.assert_allclose(found.logits, logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.scores, softmax(logits), rtol=1e-4, atol=1e-5)
    assert found.labels.tolist() == [tiny.model.labels[i] for i in logits.argmax(axis=1)]
    assert len(found) == len(TEXTS)


def test_shapes_and_types(classifier: Classifier) -> None:
    for texts in (TEXTS, TEXTS[:1], []):
        found = classifier.predict(texts)
        assert found.labels.shape == (len(texts),)
        assert found.scores.shape == found.logits.shape == (len(texts), 2)
        assert found.scores.dtype == found.logits.dtype == np.float32
        assert found.labels.dtype.kind == "U"
        np.testing.assert_allclose(found.scores.sum(axis=1), 1, rtol=1e-6)


def test_any_iterable_of_str_and_bytes(classifier: Classifier) -> None:
    expected = classifier.predict(TEXTS)
    check_same(classifier.predict(tuple(TEXTS)), expected)
    check_same(classifier.predict(text for text in TEXTS), expected)
    check_same(classifier.predict(np.array(TEXTS)), expected)
    check_same(classifier.predict([text.encode() for text in TEXTS]), expected)
    check_same(classifier.predict(dict.fromkeys(TEXTS)), expected)
    check_same(classifier.predict([TEXTS[0].encode(), *TEXTS[1:]]), expected)


def test_half_a_surrogate_pair_is_a_word_like_any_other(classifier: Classifier) -> None:
    check_same(classifier.predict(["good", "\ud800 bad"]), classifier.predict([b"good", b"\xed\xa0\x80 bad"]))


@pytest.mark.parametrize("text", ["one text", b"one text", ""])
def test_a_single_text_is_refused(classifier: Classifier, text: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a list of texts; for a single one, say predict\(\[text\]\)"):
        classifier.predict(text)


@pytest.mark.parametrize("text", [None, 3, ["a"], 1.5])
def test_what_is_no_text_is_refused(classifier: Classifier, text: Any) -> None:
    with pytest.raises(TypeError, match="text 1 is a"):
        classifier.predict(["good", text])


def test_lone_surrogates_and_invalid_bytes(classifier: Classifier) -> None:
    assert len(classifier.predict(["\ud800 good", b"\xff\xfe good"])) == 2


def test_a_sentence_does_not_depend_on_its_batch(classifier: Classifier) -> None:
    whole = classifier.predict(TEXTS)
    for index, text in enumerate(TEXTS):
        alone = classifier.predict([text])
        np.testing.assert_allclose(alone.scores[0], whole.scores[index], atol=1e-6)
        assert alone.labels[0] == whole.labels[index]


def test_token_ids(classifier: Classifier) -> None:
    ids = np.array([[2, 4, 6, 1, 1], [5, 5, 0, 39, 1]])
    found = classifier.predict_ids(ids)
    for kind in (np.int32, np.uint8, np.int64, ">i4"):
        check_same(classifier.predict_ids(ids.astype(kind)), found)
    check_same(classifier.predict_ids(np.asfortranarray(ids)), found)
    check_same(classifier.predict_ids(ids.tolist()), found)  # type: ignore[arg-type]
    assert len(classifier.predict_ids(np.zeros((0, 7), int))) == 0


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.zeros(5, int), r"expected integers \[sentences, length\], got int64 of shape \[5\]"),
        (np.zeros((1, 5)), "expected integers .* got float64"),
        (np.zeros((2, 4), int), "sentences of 4 tokens, the model takes 5 to 24"),
        (np.zeros((2, 25), int), "sentences of 25 tokens, the model takes 5 to 24"),
        (np.full((2, 5), 40), "ids run from 40 to 40, the vocabulary from 0 to 39"),
        (np.full((2, 5), -1), "ids run from -1 to -1"),
        (np.full((1, 5), 2**40), "ids run from 1099511627776"),
    ],
)
def test_token_ids_that_do_not_fit(classifier: Classifier, ids: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        classifier.predict_ids(ids)


@pytest.fixture(scope="module")
def of_embeddings(tiny_path: Path) -> Iterator[Classifier]:
    with Classifier.load(tiny_path, device="cpu", embeddings=True, batch=2) as made:
        yield made


def test_embeddings_are_as_good_as_their_tokens(of_embeddings: Classifier, tiny: Config) -> None:
    ids = np.array([[2, 4, 6, 1, 1], [5, 5, 0, 39, 1], [9, 8, 7, 6, 5]])
    values = obtain_weights(tiny.model).embedding[ids].transpose(0, 2, 1)
    found = of_embeddings.predict_embeddings(values)
    check_same(found, of_embeddings.predict_ids(ids))
    check_same(of_embeddings.predict_embeddings(values.astype(np.float64)), found)
    assert len(of_embeddings.predict_embeddings(values[:0])) == 0
    assert of_embeddings.plan.convolution == "im2col"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((2, 12)), "expected floats .*channel first.* got float64 of shape"),
        (np.zeros((2, 5, 12)), r"\[sentences, 12, length\] .* got float64 of shape \[2, 5, 12\]"),
        (np.zeros((2, 12, 5), int), "expected floats .* got int64"),
        (np.zeros((2, 12, 4)), "sentences of 4 tokens, the model takes 5 to 24"),
        (np.full((1, 12, 5), np.nan), "NaN or infinity among the values; repair or drop"),
        (np.full((1, 12, 5), np.inf), "NaN or infinity"),
        (np.full((1, 12, 5), 1e300), "NaN or infinity"),
    ],
)
def test_embeddings_that_do_not_fit(of_embeddings: Classifier, values: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        of_embeddings.predict_embeddings(values)


def test_a_classifier_for_texts_says_so(classifier: Classifier) -> None:
    with pytest.raises(UsageError, match="load it with embeddings=True"):
        classifier.predict_embeddings(np.zeros((1, 12, 5), np.float32))


def test_several_threads_give_what_one_gives(tiny_path: Path) -> None:
    with Classifier.load(tiny_path, device="cpu", streams=2) as shared:
        parts = [[f"w{i} w{(i * 7 + j) % 20} good" for j in range(50)] for i in range(12)]
        with ThreadPoolExecutor(6) as threads:
            together = list(threads.map(shared.predict, parts * 4))
        for index, found in enumerate(together):
            expected = shared.predict(parts[index % 12])
            np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
            assert found.labels.tolist() == expected.labels.tolist()


def test_plan_and_labels(tiny_path: Path) -> None:
    with Classifier.load(tiny_path, device="cpu", precision="fp32", batch=5, streams=1) as made:
        assert (made.plan.batch, made.plan.streams, made.plan.device) == (5, 1, "cpu")
        assert tuple(made.labels) == ("negative", "positive")


def test_a_device_that_is_not_there(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel_cli.cuda.device.missing", lambda: "no driver")
    with pytest.raises(DeviceError, match="--device cuda: no driver"):
        Classifier.load(tiny_path, device="cuda")
    with Classifier.load(tiny_path, device="auto") as made:
        assert made.plan.device == "cpu"


def test_what_cannot_be_loaded(tiny_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no packaged configuration 'nope'"):
        Classifier.load("nope")
    with pytest.raises(ConfigError, match="precision: fp99 is not available on cpu; available: fp32"):
        Classifier.load(tiny_path, device="cpu", precision="fp99")
    own = tmp_path / "own.yaml"
    own.write_text(f"extends: {tiny_path}\nmodel: {{vocabulary: none.txt}}\n")
    with pytest.raises(WeightsError, match=r"cannot read the vocabulary .*none\.txt"):
        Classifier.load(own, device="cpu")
    own.write_text(f"extends: {tiny_path}\nmodel: {{vocabulary_size: 41}}\n")
    with pytest.raises(WeightsError, match="40 words, but the configuration says vocabulary_size 41"):
        Classifier.load(own, device="cpu")
    own.write_text(f"extends: {tiny_path}\nmodel: {{weights: none.safetensors}}\n")
    with pytest.raises(WeightsError, match="no weights file"):
        Classifier.load(own, device="cpu")


def test_every_failure_is_an_accel_error() -> None:
    for error in (ConfigError, DeviceError, InputError, UsageError, WeightsError):
        assert issubclass(error, AccelError)


def test_the_package_has_its_names() -> None:
    assert accel_cli.Classifier is Classifier
    with pytest.raises(AttributeError, match="has no attribute 'Klassifier'"):
        accel_cli.Klassifier  # noqa: B018


@pytest.mark.parametrize("key", ["batch", "streams"])
@pytest.mark.parametrize("value", [0, -5, 2.5, "4", True, 1 << 21])
def test_sizes_of_the_plan_that_are_none(tiny_path: Path, key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{key} must be a whole number from 1 to .*, got"):
        Classifier.load(tiny_path, device="cpu", **{key: value})


def test_sizes_may_come_from_numpy(tiny_path: Path) -> None:
    with Classifier.load(tiny_path, device="cpu", batch=np.int64(3)) as made:
        assert made.plan.batch == 3


@pytest.mark.parametrize("device", ["CPU", "gpu", "", "cuda:", "cuda:-1", None, 0])
def test_a_device_of_no_known_name(tiny_path: Path, device: Any) -> None:
    with pytest.raises(UsageError, match=f"the device {device!r} is not one of auto, cpu, cuda, cuda:N"):
        Classifier.load(tiny_path, device=device)


def test_after_it_is_closed(tiny_path: Path) -> None:
    made = Classifier.load(tiny_path, device="cpu")
    made.close()
    made.close()
    for texts in (TEXTS, []):
        with pytest.raises(UsageError, match="the classifier is closed; load another one"):
            made.predict(texts)


def test_closing_it_while_it_predicts(tiny_path: Path) -> None:
    made = Classifier.load(tiny_path, device="cpu", batch=1, streams=1)

    def until_closed() -> None:
        while True:
            made.predict(TEXTS * 20)

    with ThreadPoolExecutor(3) as threads:
        runs = [threads.submit(until_closed) for _ in range(3)]
        time.sleep(0.1)
        made.close()
        for run in runs:
            assert isinstance(run.exception(60), UsageError)


def test_results_are_compared_by_identity(classifier: Classifier) -> None:
    one, other = classifier.predict(TEXTS), classifier.predict(TEXTS)
    assert one == one
    assert one != other
    assert len({one, other}) == 2
