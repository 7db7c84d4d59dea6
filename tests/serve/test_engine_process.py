"""The engine's process: what it answers over its connection, and the link that starts it."""

from __future__ import annotations

import asyncio
import pickle
import socket
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from text_engine import classifier_of, fake_texts

from accel_cli import classifier as classifiers
from accel_cli.batches import TextBatch, TokenBatch
from accel_cli.classifier import Classifier
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.cuda_text_reader import CudaTextReader
from accel_cli.errors import DeviceError
from accel_cli.model.config import Config
from accel_cli.serve import engine_process
from accel_cli.serve.engine_link import EngineLink
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Computed, Failed, Gone, Message, Ready
from serve.processes import PATIENCE

TEXTS = [[b"good film", b"bad " * 30], [b"not"], [b"a", b"b", b"", b"the film", b"w1"]]


def answers(sound: Classifier, texts: Sequence[Sequence[bytes]], tokens: int = 10_000) -> list[Message]:
    """What the engine's process says of these batches, all of which it has at once."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            engine_process.serve(sound, theirs, tokens)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with ours:
        ours.settimeout(PATIENCE)
        for part in texts:
            batch = TextBatch.of(part)
            ours.sendall(QUESTION.pack(len(batch.text), len(batch)) + batch.text)
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as stream:
            found: list[Message] = []
            while head := stream.read(ANSWER.size):
                found.append(pickle.loads(stream.read(*ANSWER.unpack(head))))
    thread.join(PATIENCE)
    return found


@pytest.mark.parametrize("tokens", [24, 50, 10_000])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_batches_are_answered_in_order(tiny: Config, tokens: int, batch: int) -> None:
    with Classifier.load(tiny.path, device="cpu", batch=batch) as sound:
        expected = [sound.predict(part).logits for part in TEXTS]
        found = answers(sound, TEXTS, tokens)
    for message, logits in zip(found, expected, strict=True):
        assert isinstance(message, Computed)
        np.testing.assert_allclose(message.found.logits, logits, atol=1e-6)
        assert min(message.tokenization, message.inference) > 0
    cut = [message.found.truncated.tolist() for message in found if isinstance(message, Computed)]
    assert cut == [[False, True], [False], [False] * 5]


def test_texts_that_the_device_reads(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows and counts, and the host finds no word of theirs, several batches under way."""
    texts = [TEXTS[0], [b"not\na\r"] * 9, TEXTS[2]]
    monkeypatch.setattr(classifiers, "SHORT", 0)
    with fake_texts() as patch:
        sound = classifier_of(tiny_path)
        expected = [sound.tokenizer.encode(part) for part in texts]
        logits = [sound.engine.submit(part.batch).result().logits for part in expected]
        patch.setattr(CudaEngine, "submit", lambda *_: pytest.fail("the host found the words"))
        found = answers(sound, texts)
    for message, encoded, wanted in zip(found, expected, logits, strict=True):
        assert isinstance(message, Computed)
        assert message.found.logits.tobytes() == wanted.tobytes()
        assert message.found.truncated.tolist() == encoded.truncated.tolist()
        assert message.found.lengths.tolist() == encoded.batch.lengths.tolist()


def test_a_batch_that_fails_is_an_answer(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    with Classifier(tiny, "cpu") as sound:
        submit = sound.engine.submit

        def fail(batch: TokenBatch) -> object:
            if len(batch) == 1:
                raise DeviceError("the model computed NaN")
            return submit(batch)

        monkeypatch.setattr(sound.engine, "submit", fail)
        kinds = answers(sound, TEXTS)
    assert [type(message) for message in kinds] == [Computed, Failed, Computed]
    assert kinds[1] == Failed("DeviceError: the model computed NaN", full=False)


def test_after_the_warm_up_every_slot_for_text_has_its_graph(tiny_path: Path) -> None:
    with fake_texts():
        sound = classifier_of(tiny_path, batch=300, streams=3)
        engine_process.warm_up(sound)
        reader = sound.engine.text_reader(sound.tokenizer)
        assert isinstance(reader, CudaTextReader)
        graphs = [slot._network._replays._graphs for slot in reader._slots]
    assert len(graphs) == 3
    assert all(kept[0] is not None for kept in graphs)


class Heard:
    """Keeps what the engine says."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    def heard(self, message: Message) -> None:
        self.messages.put_nowait(message)

    async def next(self) -> Message:
        return await asyncio.wait_for(self.messages.get(), PATIENCE)


def test_the_link(tiny: Config) -> None:
    """Load, compute a batch larger than any buffer between, and end."""

    async def run() -> None:
        heard = Heard()
        link = EngineLink(heard)
        await link.start(tiny, "cpu", 100_000)
        assert isinstance(await heard.next(), Ready)
        texts = TextBatch.of([b"good film " * 100] * 8192)
        link.compute(texts)
        computed = await heard.next()
        assert isinstance(computed, Computed)
        assert len(computed.found) == len(texts)
        link.end(kill=False)
        await asyncio.sleep(0)
        assert heard.messages.empty()  # that it ended is no news

    uvloop.run(run())


def test_what_cannot_be_loaded_is_told(tiny: Config) -> None:
    async def run() -> Message:
        heard = Heard()
        link = EngineLink(heard)
        await link.start(tiny, "nonsense", 100)
        found = await heard.next()
        link.end(kill=True)
        return found

    found = uvloop.run(run())
    assert isinstance(found, Gone)
    assert "nonsense" in str(found.error)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(20, 60))
def test_parts_keep_within_the_budget(lengths: list[int], tokens: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    batch = TokenBatch(np.arange(offsets[-1], dtype=np.int32), offsets)
    parts = batch.parts(tokens)
    assert all(0 < part.offsets[-1] <= tokens for part in parts)
    assert np.concatenate([part.lengths for part in parts]).tolist() == lengths
    assert np.array_equal(np.concatenate([part.ids for part in parts]), batch.ids)
    full = [part.offsets[-1] + after.lengths[0] for part, after in pairwise(parts)]
    assert all(size > tokens for size in full)  # none of them is smaller than it must be
