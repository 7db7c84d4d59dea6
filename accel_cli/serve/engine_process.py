"""The body of the process that owns the engine: it loads, warms up, and then computes batch after batch.

The server's own interpreter lock is so left to its connections.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import socket
import time
import warnings
from collections import deque

from accel_cli.batches import TextBatch
from accel_cli.classifier import SHORT, Classifier
from accel_cli.cuda.errors import DeviceFull, DeviceLost
from accel_cli.engines.base import TextTicket
from accel_cli.errors import AccelWarning
from accel_cli.model.config import Config
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Computed, Failed, Gone, Message, Ready, Warned
from accel_cli.spawn import SIGNALS, known, settle_in


def run(config: Config, device: str, max_batch_tokens: int, connection: socket.socket) -> None:
    """Compute batches until the connection ends, or the parent does."""
    settle_in(*SIGNALS)  # a terminal, or a supervisor, sends them to us too: the server says when we end
    warnings.showwarning = lambda message, category, *_, **__: _say(
        connection, Warned(str(message), issubclass(category, AccelWarning))
    )
    try:
        classifier = Classifier(config, device)
        warm_up(classifier)
        gc.freeze()  # what is loaded stays: the collector need not look at it again and again
        _say(connection, Ready(classifier.plan))
        serve(classifier, connection, max_batch_tokens)
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


def serve(classifier: Classifier, connection: socket.socket, max_batch_tokens: int) -> None:
    """Answer until the connection ends. On a GPU the next batches start while one runs. Raises DeviceLost."""
    most = depth(classifier.plan.device, classifier.plan.streams)
    under_way: deque[_Batch] = deque()
    while True:
        while len(under_way) < most and (text := _question(connection, wait=not under_way)):
            under_way.append(_Batch(classifier, text, max_batch_tokens))
        if not under_way:
            return
        _say(connection, under_way.popleft().answer())


def depth(device: str, streams: int) -> int:
    """How many batches the engine has at once."""
    return 1 if device == "cpu" else streams


class _Batch:
    """A batch that the engine computes, or could not begin. All but a lost device is an answer."""

    def __init__(self, classifier: Classifier, text: TextBatch, max_batch_tokens: int) -> None:
        begin = time.perf_counter()
        self._failure: Exception | None = None
        try:
            read = classifier.read(text)
            self._begin = time.perf_counter()
            self._tokenization = self._begin - begin
            self._ticket: TextTicket = classifier.submit(read, max_batch_tokens)
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
        return Computed(found, self._tokenization, time.perf_counter() - self._begin)


def _question(connection: socket.socket, *, wait: bool) -> TextBatch | None:
    """The next texts; None if there are no more, or none yet and nobody waits."""
    if not wait and not select.select([connection], [], [], 0)[0]:
        return None
    head = connection.recv(QUESTION.size, socket.MSG_WAITALL)
    if len(head) < QUESTION.size:
        return None
    size, lines = QUESTION.unpack(head)
    return TextBatch(connection.recv(size, socket.MSG_WAITALL), lines)


def _say(connection: socket.socket, message: Message) -> None:
    """Send a message; with nobody there to hear it, the process ends."""
    data = pickle.dumps(message)
    try:
        connection.sendall(ANSWER.pack(len(data)) + data)
    except OSError:
        os._exit(1)
