"""Where the server is in its life."""

from __future__ import annotations

from accel_cli.serve.refusals import Refusal, unavailable

LOADING, READY, DRAINING, FAILED = "loading", "ready", "draining", "failed"
_MESSAGES = {
    LOADING: "the model is being loaded; try again soon",
    DRAINING: "the server is stopping; use another one",
    FAILED: "the engine has failed; the server stops",
}


class Status:
    """One of the phases above; a failure is for good."""

    def __init__(self) -> None:
        self.phase = LOADING

    def move(self, phase: str) -> None:
        """Enter a phase; what stops or has failed does not become ready any more."""
        if self.phase == FAILED or (self.phase == DRAINING and phase == READY):
            return
        self.phase = phase

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self.phase == READY

    @property
    def healthy(self) -> bool:
        """Whether the process is worth keeping."""
        return self.phase != FAILED

    def refusal(self) -> Refusal:
        """Why requests are not taken."""
        return unavailable(_MESSAGES[self.phase])
