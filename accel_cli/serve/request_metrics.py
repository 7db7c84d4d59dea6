"""What is counted of every request, by one thread that also reads it: no locks, no labels to look up."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_NAMES = [*(str(float(bound)) for bound in BOUNDS), "+Inf"]


class Durations:
    """How many took how long."""

    def __init__(self) -> None:
        self._counts = [0] * len(_NAMES)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def into(self, family: HistogramMetricFamily, *labels: str) -> None:
        """Add these to what Prometheus reads."""
        buckets = list(zip(_NAMES, map(float, accumulate(self._counts)), strict=True))
        family.add_metric(labels, buckets, self._sum)


class Requests:
    """Requests by endpoint and status, their times by endpoint, and their times in the queue."""

    def __init__(self) -> None:
        self._codes: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Durations] = {}
        self.queue = Durations()

    def count(self, endpoint: str, code: int, seconds: float) -> None:
        """One request was answered."""
        self._codes[endpoint, code] += 1
        found = self._seconds.get(endpoint)
        if found is None:
            found = self._seconds[endpoint] = Durations()
        found.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What Prometheus reads."""
        counter = CounterMetricFamily(
            "accel_request", "Requests by endpoint and status.", labels=("endpoint", "code")
        )
        for (endpoint, code), number in self._codes.items():
            counter.add_metric((endpoint, str(code)), number)
        yield counter
        seconds = HistogramMetricFamily(
            "accel_request_duration_seconds",
            "From the end of a request's header to its answer.",
            labels=("endpoint",),
        )
        for endpoint, durations in self._seconds.items():
            durations.into(seconds, endpoint)
        yield seconds
        queue = HistogramMetricFamily(
            "accel_queue_duration_seconds", "Waiting of a request until the engine took its first text."
        )
        self.queue.into(queue)
        yield queue
