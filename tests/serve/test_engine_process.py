"""The engine's process: what it answers over its connection, and the link that starts it."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import uvloop
from text_engine import classifier_of, fake_texts

from accel_cli import classifier as classifiers
from accel_cli.batches import TextBatch, TokenBatch
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.cuda_text_reader import CudaTextReader
from accel_cli.errors import AccelError, AccelWarning, DeviceError
from accel_cli.model.config import Config
from accel_cli.serve import engine_link, engine_process
from accel_cli.serve.engine_link import EngineLink
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Computed, Failed, Gone, Message, Planned, Ready
from accel_cli.spawn import Warned, settle_in
from serve.processes import PATIENCE

PLAN = Plan("cpu", "fp32", "folded", "folded", 32, 2)
TEXTS = [[b"good film", b"bad " * 30], [b"not"], [b"a", b"b", b"", b"the film", b"w1"]]


def answers(sound: Classifier, texts: Sequence[Sequence[bytes]], tokens: int = 10_000) -> list[Message]:
    """What the engine's process says of these batches, all of which it has at once."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            engine_process.serve(sound, theirs)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with ours:
        ours.settimeout(PATIENCE)
        for part in texts:
            batch = TextBatch.of(part)
            ours.sendall(QUESTION.pack(len(batch.text), len(batch), tokens) + batch.text)
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as stream:
            found: list[Message] = []
            while head := stream.read(ANSWER.size):
                found.append(pickle.loads(stream.read(*ANSWER.unpack(head))))
    thread.join(PATIENCE)
    assert found.pop(0) == Ready(sound.plan, sound.plan.streams if sound.plan.device != "cpu" else 1)
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


def test_the_link(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, load, compute a batch larger than any buffer between, and end."""
    monkeypatch.setattr(engine_link, "PATIENCE", PATIENCE)

    async def run(link: EngineLink) -> None:
        heard = Heard()
        await link.connect(heard)
        assert isinstance(await heard.next(), Ready)
        texts = TextBatch.of([b"good film " * 100] * 8192)
        link.compute(texts, 100_000)
        os.kill(link.process, signal.SIGSTOP)  # what it reads then comes in pieces
        await asyncio.sleep(0.1)
        os.kill(link.process, signal.SIGCONT)
        computed = await heard.next()
        assert isinstance(computed, Computed)
        assert len(computed.found) == len(texts)
        link.end(kill=False)
        assert link._child._process.exitcode == 0  # in its own time, not killed
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)
        assert heard.messages.empty()  # that it ended is no news

    with EngineLink(tiny, "cpu") as link:
        assert link.plan().device == "cpu"
        uvloop.run(run(link))


def test_a_process_that_dies_is_heard_of(tiny: Config) -> None:
    async def run(link: EngineLink) -> Message:
        heard = Heard()
        await link.connect(heard)
        os.kill(link.process, signal.SIGKILL)
        while not isinstance(found := await heard.next(), Gone):
            pass
        return found

    with EngineLink(tiny, "cpu") as link:
        link.plan()
        found = uvloop.run(run(link))
    assert isinstance(found, Gone)
    assert str(found.error) == "the engine's process was ended by signal 9 (Killed); start accel again"


def test_the_last_words_are_heard_though_a_write_failed(tiny: Config) -> None:
    """The loop writes before it reads that the device is lost."""
    ours, theirs = socket.socketpair()
    engine_process._say(theirs, Planned(PLAN))

    async def run(link: EngineLink) -> list[Message]:
        heard = Heard()
        await link.connect(heard)
        engine_process._say(theirs, Gone(DeviceError("an illegal address")))
        theirs.close()
        link.compute(TextBatch.of([b"good"]), 100)
        found = [await heard.next()]
        while not link._transport.is_closing():
            await asyncio.sleep(0)
        link.compute(TextBatch.of([b"too late"]), 100)  # whoever waits has heard of it
        return found

    with EngineLink(tiny, "cpu") as link:
        link._socket.close()
        link._socket = ours
        link.plan()
        [found] = uvloop.run(run(link))
    assert isinstance(found, Gone)
    assert str(found.error) == "an illegal address"


def plan_nothing(*_: object) -> None:
    """The body of a process that says nothing and ends with its parent."""
    settle_in()
    threading.Event().wait()


def test_what_cannot_be_planned_is_told(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    with EngineLink(tiny, "nonsense") as link, pytest.raises(AccelError, match="nonsense"):
        link.plan()
    monkeypatch.setattr(engine_link, "run", plan_nothing)  # else it might have a plan before it is killed
    with EngineLink(tiny, "cpu") as link:
        os.kill(link.process, signal.SIGKILL)
        with pytest.raises(DeviceError, match="ended by signal 9"):
            link.plan()


def test_warnings_are_told(tiny: Config) -> None:
    """Before the plan as warnings, later to the listener; and no message is lost between."""
    ours, theirs = socket.socketpair()
    warned = Warned("mind the gap", own=True)
    for message in (warned, Planned(PLAN), warned, Ready(PLAN, 1)):
        engine_process._say(theirs, message)

    async def run(link: EngineLink) -> list[Message]:
        heard = Heard()
        await link.connect(heard)
        return [await heard.next(), await heard.next()]

    with EngineLink(tiny, "cpu") as link:
        link._socket.close()
        link._socket = ours
        with pytest.warns(AccelWarning, match="mind the gap"):
            assert link.plan() == PLAN
        assert uvloop.run(run(link)) == [warned, Ready(PLAN, 1)]
    theirs.close()
