"""The engine's process, seen from the server: texts go out, messages come in, and nobody waits here."""

from __future__ import annotations

import asyncio
import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from accel_cli.batches import TextBatch
from accel_cli.engines.base import Plan
from accel_cli.errors import DeviceError
from accel_cli.model.config import Config
from accel_cli.serve.engine_messages import ANSWER, QUESTION, Gone, Message, Planned
from accel_cli.serve.engine_process import run
from accel_cli.spawn import PATIENCE, Child, Warned


class Listener(Protocol):
    """Who hears from the engine."""

    def heard(self, message: Message) -> None:
        """A message, in order; after Gone there are no more."""


class EngineLink(asyncio.Protocol):
    """Starts the process, and is the server's end of the connection to it. Leaving the context ends it."""

    def __init__(self, config: Config, device: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._child = Child(run, config, device, theirs)
        self._received = bytearray()
        self._ended = False
        self._listener: Listener
        self._transport: asyncio.WriteTransport

    def __enter__(self) -> EngineLink:
        return self

    def __exit__(self, *failure: object) -> None:
        self._child.kill()
        self._socket.close()

    @property
    def process(self) -> int:
        """The number of the process."""
        return self._child.number

    def plan(self) -> Plan:
        """Wait for the plan, before the loop runs. Raises AccelError if there can be none."""
        while True:
            data = self._socket.recv(1 << 16)
            self._received += data
            for message in self._messages() if data else [self._death()]:
                if isinstance(message, Planned):
                    return message.plan
                if isinstance(message, Gone):
                    raise message.error
                if isinstance(message, Warned):
                    message.show()

    async def connect(self, listener: Listener) -> None:
        """From now on the event loop reads what the process says, and the listener hears it."""
        self._listener = listener
        self._socket.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=self._socket)

    def compute(self, texts: TextBatch, most_tokens: int) -> None:
        """Have a batch computed; there is a message for each, or else Gone."""
        head = QUESTION.pack(len(texts.text), len(texts), most_tokens)
        if not self._transport.is_closing():
            self._transport.writelines((head, texts.text))

    def end(self, *, kill: bool) -> None:
        """End the process: at once, or when it has let go of its device, which has its time."""
        self._ended = True
        if kill:
            self._child.kill()
        elif not self._transport.is_closing():  # as it is when the process has ended
            self._socket.shutdown(socket.SHUT_WR)
        self._child.wait(time.monotonic() + PATIENCE)
        self._transport.close()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        """The process can be talked to; what it has said since the plan is heard now."""
        self._transport = transport
        self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """Pass on the messages that are whole."""
        self._received += data
        for message in self._messages():
            self._hear(message)

    def connection_lost(self, error: Exception | None) -> None:
        """The process has ended; if it should not, its last words are heard, or how it ended is said."""
        with suppress(OSError):  # what a failed write has left unread
            while data := self._socket.recv(1 << 16):
                self.data_received(data)
        if not self._ended:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._death).add_done_callback(
                lambda found: self._hear(found.result())
            )

    def _messages(self) -> Iterator[Message]:
        """Those that have come; who stops early leaves the others."""
        while len(self._received) >= ANSWER.size:
            (size,) = ANSWER.unpack_from(self._received)
            end = ANSWER.size + size
            if len(self._received) < end:
                return
            message: Message = pickle.loads(self._received[ANSWER.size : end])
            del self._received[:end]
            yield message

    def _hear(self, message: Message) -> None:
        self._ended = self._ended or isinstance(message, Gone)
        self._listener.heard(message)

    def _death(self) -> Gone:
        return Gone(DeviceError(f"the engine's process {self._child.death()}; start accel again"))
