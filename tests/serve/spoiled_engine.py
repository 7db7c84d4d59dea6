"""`accel` with an engine that does not behave, in the way that the environment names as SPOILED:

  gated   a batch is computed once the file $GATE exists; each one that starts is a line in $GATE.begun
  closed  the model is loaded once the file $GATE exists
  lost    the device is lost by a batch with the word w5
  faulty  a batch with the word w5 fails, and no other one
  worse   a batch with the word w5 fails, and else the device is lost by one with the word w6
  full    a batch of several sentences does not fit the device's memory
  broken  the model cannot be loaded, after a warning
  bug     the model cannot be loaded for a reason that nobody has foreseen
  killed  the engine's process dies of a batch with the word w5

After a failure the server stays for $GRACE seconds, 2 if not set. The engine's process imports this module
again, and so spoils its own engine.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from accel_cli import commands
from accel_cli.batches import Batch
from accel_cli.classifier import Classifier
from accel_cli.cuda.errors import DeviceFull, DeviceLost
from accel_cli.errors import AccelWarning, DeviceError, WeightsError
from accel_cli.serve import engine_process, limits

KIND = os.environ["SPOILED"]


def wait_for_gate() -> None:
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.005)


class Spoiled:
    """Hands on to a sound engine what it does not spoil."""

    def __init__(self, sound: Any, trigger: int, other: int) -> None:
        self._sound = sound
        self._trigger = trigger
        self._other = other
        self.plan = sound.plan
        self.close = sound.close
        self.text_reader = sound.text_reader

    def submit(self, batch: Batch) -> Any:
        triggered = self._trigger in batch.ids
        if KIND == "gated":
            with open(os.environ["GATE"] + ".begun", "a") as file:
                file.write(f"{len(batch)}\n")
            wait_for_gate()
        if KIND == "lost" and triggered:
            raise DeviceLost("CUDA failed while running a batch: an illegal address; start accel again")
        if KIND == "killed" and triggered:
            os.kill(os.getpid(), signal.SIGKILL)
        if KIND in ("faulty", "worse") and triggered:
            raise DeviceError("the model computed NaN or infinity")
        if KIND == "worse" and self._other in batch.ids:
            raise DeviceLost("CUDA failed while running a batch: an illegal address; start accel again")
        if KIND == "full" and len(batch) > 1:
            raise DeviceFull("the device's memory is full")
        return self._sound.submit(batch)


class SpoiledClassifier(Classifier):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        if KIND == "closed":
            wait_for_gate()
        if KIND == "bug":
            raise KeyError("x")
        if KIND == "broken":
            warnings.warn("these weights look old", AccelWarning, stacklevel=1)
            raise WeightsError("weights.safetensors is damaged; fetch it again")
        super().__init__(*arguments, **settings)
        self._sound = self.engine

    def spoil(self) -> None:
        words = self.tokenizer.vocabulary
        self.engine = Spoiled(self._sound, words[b"w5"], words[b"w6"])


def warm_up(made: Any) -> None:
    """As it is: the engine is spoiled afterwards."""
    sound_warm_up(made)
    made.spoil()


limits.limits_for = partial(limits.limits_for, failure_grace=float(os.environ.get("GRACE", "2")))
sound_warm_up, engine_process.warm_up = engine_process.warm_up, warm_up
engine_process.Classifier = SpoiledClassifier  # type: ignore[misc]

if __name__ == "__main__":
    commands.main()
