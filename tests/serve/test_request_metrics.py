"""Histograms without locks: what Prometheus reads of them is what it would read of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

from accel_cli.serve.request_metrics import BOUNDS, Requests

ENDPOINTS = st.sampled_from(["/predict", "/v2/models/{name}/infer", "other"])
SECONDS = st.sampled_from(BOUNDS) | st.floats(0, 20)


@settings(max_examples=30)
@given(st.lists(st.tuples(ENDPOINTS, st.sampled_from([200, 429]), SECONDS), max_size=12))
def test_as_prometheus_has_it(requests: list[tuple[str, int, float]]) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    mine = Requests()
    ours.register(mine)
    counter = Counter(
        "accel_request", "Requests by endpoint and status.", ("endpoint", "code"), registry=theirs
    )
    seconds = Histogram(
        "accel_request_duration_seconds",
        "From the end of a request's header to its answer.",
        ("endpoint",),
        buckets=BOUNDS,
        registry=theirs,
    )
    queue = Histogram(
        "accel_queue_duration_seconds",
        "Waiting of a request until the engine took its first text.",
        buckets=BOUNDS,
        registry=theirs,
    )
    for endpoint, code, took in requests:
        mine.count(endpoint, code, took)
        mine.queue.observe(took)
        counter.labels(endpoint, str(code)).inc()
        seconds.labels(endpoint).observe(took)
        queue.observe(took)
    assert generate_latest(ours) == generate_latest(theirs)
