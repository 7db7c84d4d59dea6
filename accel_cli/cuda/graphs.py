"""CUDA graphs: launches that come again with the same arguments cost one launch together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from accel_cli.cuda.ranges import named

Work = Callable[[], None]
_MOST = 1024  # graphs that are kept: each takes some memory


def captured(stream: Any, work: Work) -> Any:
    """What `work` enqueues on the current stream, as a graph. After an error the stream works as before."""
    stream.begin_capture()
    try:
        work()
    except BaseException:
        with suppress(Exception):  # CUDA may refuse half a graph; the first error says why
            stream.end_capture()
        raise
    return stream.end_capture()


class Replays:
    """Pieces of work, each known by a key, that enqueue the same launches every time.

    A piece runs as it is when it first comes, which loads its kernels; then it is captured, and replayed.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._graphs: dict[int, Any] = {}

    def __call__(self, key: int, work: Work) -> None:
        """Enqueue a piece on the stream, which is the current one."""
        if key not in self._graphs:
            work()
            if len(self._graphs) < _MOST:
                self._graphs[key] = None
            return
        if self._graphs[key] is None:
            self._graphs[key] = captured(self._stream, work)
        with named("graph"):
            self._graphs[key].launch(self._stream)
