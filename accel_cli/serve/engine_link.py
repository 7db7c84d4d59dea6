"""The engine's process, seen from the event loop: texts go out, messages come in, and neither waits."""

from __future__ import annotations

import asyncio
import pickle
import socket
import time
from typing import Protocol

from accel_cli.batches import TextBatch
from accel_cli.errors import DeviceError
from accel_cli.model.config import Config
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Gone, Message
from accel_cli.serve.engine_process import run
from accel_cli.spawn import PATIENCE, Child


class Listener(Protocol):
    """Who hears from the engine."""

    def heard(self, message: Message) -> None:
        """A message, in order; after Gone there are no more."""


class EngineLink(asyncio.Protocol):
    """Starts the process, and is the server's end of the connection to it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._received = bytearray()
        self._gone = False
        self._transport: asyncio.WriteTransport
        self._child: Child

    async def start(self, config: Config, device: str, max_batch_tokens: int) -> int:
        """Begin to load the model; the number of the process."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._child = Child(run, config, device, max_batch_tokens, theirs)
        ours.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)
        return self._child.number

    def compute(self, texts: TextBatch) -> None:
        """Have a batch computed; there is a message for each."""
        self._transport.writelines((QUESTION.pack(len(texts.text), len(texts)), texts.text))

    def end(self, *, kill: bool) -> None:
        """End the process: at once, or when it has let go of its device, which has its time."""
        self._gone = True
        self._transport.close()
        self._child.wait(0.0 if kill else time.monotonic() + PATIENCE)

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        """The process can be talked to."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on the messages that are whole."""
        self._received += data
        while len(self._received) >= ANSWER.size:
            (size,) = ANSWER.unpack_from(self._received)
            end = ANSWER.size + size
            if len(self._received) < end:
                return
            message: Message = pickle.loads(self._received[ANSWER.size : end])
            del self._received[:end]
            self._hear(message)

    def connection_lost(self, error: Exception | None) -> None:
        """The process has ended; that it should is not said here."""
        if not self._gone:
            self._hear(Gone(DeviceError(f"the engine's process {self._child.death()}; start accel again")))

    def _hear(self, message: Message) -> None:
        self._gone = self._gone or isinstance(message, Gone)
        self._listener.heard(message)
