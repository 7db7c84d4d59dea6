"""Shards that kill their workers or take the output away; what they import need not import pytest."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accel_cli.shards.shard import Shard
from accel_cli.text.readers import Source


class Deadly(Shard):
    """In the middle of it its worker is killed, once for each file in the folder beside its input."""

    def source(self, kept: Sequence[str] = ()) -> Source:
        source = super().source(kept)
        chunks = source.chunks

        def dying(*arguments: Any) -> Iterator[Any]:
            for number, chunk in enumerate(chunks(*arguments)):
                if number == 9 and (lives := list(Path(f"{self.path}.lives").iterdir())):
                    lives[0].unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield chunk

        source.chunks = dying  # type: ignore[method-assign]
        return source


class Thief(Shard):
    """When its rows are begun, the folder goes away that the file beside its input names."""

    def source(self, kept: Sequence[str] = ()) -> Source:
        source = super().source(kept)
        chunks = source.chunks

        def stealing(*arguments: Any) -> Iterator[Any]:
            output = Path(f"{self.path}.output").read_text()
            os.rename(output, f"{output}.away")
            yield from chunks(*arguments)

        source.chunks = stealing  # type: ignore[method-assign]
        return source
