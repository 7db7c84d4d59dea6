"""Metrics for Prometheus, in a registry of our own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from accel_cli import __version__
from accel_cli.engines.base import Plan
from accel_cli.serve.questions import Found
from accel_cli.serve.request_metrics import BOUNDS, Requests

MEDIA_TYPE = CONTENT_TYPE_LATEST.encode()
_POWERS = tuple(2**power for power in range(0, 21, 2))


class Metrics:
    """All that is counted, for one model, on the event loop."""

    def __init__(self, model: str) -> None:
        self._model = model
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Requests()
        registry.register(self._requests)
        self._tokenization, self._inference = (
            Histogram(f"accel_{stage}_duration_seconds", text, buckets=BOUNDS, registry=registry)
            for stage, text in (("tokenization", "Tokenising a batch."), ("inference", "Computing a batch."))
        )
        self._sizes = Histogram("accel_batch_size", "Texts in a batch.", buckets=_POWERS, registry=registry)
        self._tokens = Histogram(
            "accel_batch_tokens", "Tokens in a batch.", buckets=_POWERS, registry=registry
        )
        self._texts = Counter("accel_inference", "Texts that were classified.", registry=registry)
        self._truncated = Counter("accel_truncated", "Texts that were cut.", registry=registry)
        self._batches = Counter("accel_exec", "Batches that were computed.", registry=registry)
        self._rejected = Counter(
            "accel_rejected", "Requests that were not served, by reason.", ("reason",), registry=registry
        )
        self.oom_retries = Counter(
            "accel_oom_retries", "Batches tried again in parts for want of memory.", registry=registry
        )
        self._queue = Gauge("accel_queue_size", "Texts that wait for the engine.", registry=registry)
        self._inflight = Gauge(
            "accel_inflight_size", "Texts that are admitted and not answered.", registry=registry
        )
        self._healthy = Gauge("accel_backend_healthy", "1 while the engine can be used.", registry=registry)
        self._build = Info("accel_build", "What runs here.", registry=registry)

    def watch_queue(self, queue: Callable[[], int], inflight: Callable[[], int]) -> None:
        """Where the sizes of the queue can be read."""
        self._queue.set_function(queue)
        self._inflight.set_function(inflight)

    def watch_engine(self, process: int) -> None:
        """The number of the engine's process, whose memory and CPU time are told beside ours."""
        ProcessCollector(namespace="accel_engine", pid=lambda: process, registry=self.registry)

    def watch_health(self, healthy: Callable[[], bool]) -> None:
        """Where the engine's health can be read."""
        self._healthy.set_function(lambda: float(healthy()))

    def describe(self, plan: Plan) -> None:
        """How the model runs."""
        self._build.info(
            {"version": __version__, "model": self._model, "device": plan.device, "plan": str(plan)}
        )

    def request(self, endpoint: str, code: int, seconds: float) -> None:
        """One request was answered."""
        self._requests.count(endpoint, code, seconds)

    def found(self, found: Found) -> None:
        """One request was classified."""
        self._requests.queue.observe(found.times.queue)
        if found.truncated:
            self._truncated.inc(found.truncated)

    def batch(self, texts: int, tokens: int, tokenization: float, inference: float) -> None:
        """One batch was computed, in so many seconds."""
        self._tokenization.observe(tokenization)
        self._inference.observe(inference)
        self._sizes.observe(texts)
        self._tokens.observe(tokens)
        self._texts.inc(texts)
        self._batches.inc()

    def rejected(self, reason: str) -> None:
        """One request was not served."""
        self._rejected.labels(reason).inc()

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
