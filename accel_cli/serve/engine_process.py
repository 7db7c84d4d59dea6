"""The body of the process that owns the engine: it loads, warms up, and then computes batch after batch.

The server's own interpreter lock is so left to its connections.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass

from accel_cli.batches import TextBatch
from accel_cli.classifier import SHORT, Classifier
from accel_cli.cuda.errors import DeviceFull, DeviceLost
from accel_cli.engines.base import TextTicket
from accel_cli.engines.open import plan_for
from accel_cli.model.config import Config
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Computed, Failed, Gone, Message, Planned, Ready
from accel_cli.spawn import SIGNALS, known, pass_warnings_on, settle_in


def run(config: Config, device: str, connection: socket.socket) -> None:
    """Compute batches until the connection ends, or the parent does."""
    settle_in(*SIGNALS)  # a terminal, or a supervisor, sends them to us too: the server says when we end
    pass_warnings_on(lambda warned: _say(connection, warned))
    try:
        _say(connection, Planned(plan_for(config, device)))
        classifier = Classifier(config, device)
        warm_up(classifier)
        gc.freeze()  # what is loaded stays: the collector need not look at it again and again
        serve(classifier, connection)
        classifier.close()
    except Exception as error:
        _say(connection, Gone(known(error)))
    connection.close()
    os._exit(0)  # the interpreter's own way out prints a storm of tracebacks after a CUDA error


def warm_up(classifier: Classifier) -> None:
    """Classify what makes the engine compile, allocate and touch all that it will need."""
    plan, tokenizer = classifier.plan, classifier.tokenizer
    longest, blanks = "word " * tokenizer.max_tokens, " " * SHORT
    # on a device that finds words each slot takes a full batch twice: as it is, and as a graph
    full = plan.batch * (2 * plan.streams if classifier.engine.text_reader(tokenizer) else 1)
    for texts in (["a word"], [longest], [longest + blanks], ["a word"] * full):
        classifier.predict(texts)


def serve(classifier: Classifier, connection: socket.socket) -> None:
    """Answer until the connection ends. On a GPU the next batches start while one runs. Raises DeviceLost."""
    plan = classifier.plan
    depth = 1 if plan.device == "cpu" else plan.streams
    _say(connection, Ready(plan, depth))
    under_way: deque[_Batch] = deque()
    while True:
        while len(under_way) < depth and (question := _question(connection, wait=not under_way)):
            under_way.append(_Batch(classifier, question))
        if not under_way:
            return
        _say(connection, under_way.popleft().answer())


@dataclass(frozen=True)
class _Question:
    """Texts to be classified, `most_tokens` of them at once where the host counts tokens."""

    texts: TextBatch
    most_tokens: int


class _Batch:
    """A batch that the engine computes, or could not begin. All but a lost device is an answer."""

    def __init__(self, classifier: Classifier, question: _Question) -> None:
        self._begin = time.perf_counter()
        self._failure: Exception | None = None
        try:
            read = classifier.read(question.texts)
            self._read = time.perf_counter()
            self._ticket: TextTicket = classifier.submit(read, question.most_tokens)
        except DeviceLost:
            raise
        except Exception as error:
            self._failure = error

    def answer(self) -> Message:
        """What became of it, once it is computed."""
        try:
            if self._failure is not None:
                raise self._failure
            found = self._ticket.result()
        except DeviceLost:
            raise
        except Exception as error:
            return Failed(f"{type(error).__name__}: {error}", isinstance(error, DeviceFull))
        return Computed(found, self._begin, self._read - self._begin, time.perf_counter() - self._read)


def _question(connection: socket.socket, *, wait: bool) -> _Question | None:
    """The next one; None if there are no more, or none yet and nobody waits."""
    if not wait and not _readable(connection):
        return None
    head = _exactly(connection, QUESTION.size)
    if head is None:
        return None
    size, lines, most_tokens = QUESTION.unpack(head)
    text = _exactly(connection, size)
    return None if text is None else _Question(TextBatch(text, lines), most_tokens)


def _readable(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    """So many bytes, or None at the end. A process that was stopped and goes on gets them in pieces."""
    data = connection.recv(size, socket.MSG_WAITALL)
    while len(data) < size:
        more = connection.recv(size - len(data), socket.MSG_WAITALL)
        if not more:
            return None
        data += more
    return data


_SAYING = threading.Lock()  # warnings come from any thread


def _say(connection: socket.socket, message: Message) -> None:
    """Send a message; with nobody there to hear it, the process ends."""
    data = pickle.dumps(message)
    try:
        with _SAYING:
            connection.sendall(ANSWER.pack(len(data)) + data)
    except OSError:
        os._exit(1)
