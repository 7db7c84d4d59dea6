"""What `accel bench --serve` does: a real server, checked, then loaded in turns with the engine by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from accel_cli.bench import serve_client, serve_wrk
from accel_cli.bench.inputs import TOKENS, Sentences, obtain_sentences
from accel_cli.bench.measure import QUIET, Timing
from accel_cli.bench.serve_client import Connection, Load
from accel_cli.bench.serve_engine import EngineProcess, Known
from accel_cli.bench.serve_process import Server, serving
from accel_cli.bench.serve_report import ServeReport, ServeRow
from accel_cli.bench.serve_requests import TEI, V2_BINARY, V2_JSON, Answers, Request, Requests
from accel_cli.bench.serve_soak import Soak, Soaking
from accel_cli.errors import AccelError
from accel_cli.model.config import Config
from accel_cli.validation import TOLERANCE

_CLIENTS = 64  # connections of single sentences
_BATCH, _LARGE = 256, 4096  # sentences a request; the large ones on a GPU only
_STREAMS = 16  # large requests at once, at most
_CHECKED = 64  # requests of each way that are checked before the clock starts
_LIMITS = ("max_concurrent_requests", "max_client_batch_size", "max_batch_tokens", "max_batch_requests")


@dataclass(frozen=True)
class Job:
    """What to measure. `arguments` are those of `accel serve`; a load takes `seconds`, an overload `soak`."""

    arguments: tuple[str, ...]
    count: int
    repeats: int
    seconds: float
    soak: float | None = None
    path: str | None = None
    tokens: int = TOKENS


@dataclass(frozen=True)
class _Way:
    """One way to ask."""

    protocol: str
    size: int
    connections: int
    requests: list[Request]

    def __str__(self) -> str:
        return f"{self.protocol} with {self.size:,} sentence{'s' * (self.size > 1)} a request"


def run(config: Config, device: str, job: Job, tell: Callable[[str], None]) -> ServeReport:
    """Measure a server. Raises AccelError, before any timing if an answer is wrong."""
    sentences = _sentences(config, job)
    wrk = serve_wrk.installed()
    with EngineProcess() as engine:
        known = engine.load(config, device, sentences, (wrk,) if wrk else ())
        tell(f"checked {known.checked} sentences against float64: largest error {known.max_error:.1e}")
        with serving(job.arguments) as server:
            bench = _Bench(config, sentences, known, server, job, tell)
            engine_times, rows = bench.in_turns(engine, serve_wrk.load if wrk else serve_client.load)
            soak = bench.soak() if job.soak else None
            limits = {name: bench.info[name] for name in _LIMITS}
    for warning in _noise(rows):
        tell(warning)
    load = wrk or serve_client.NAME
    return ServeReport(
        config.name, known, sentences.origin, len(sentences), load, limits, engine_times, rows, soak
    )


def _sentences(config: Config, job: Job) -> Sentences:
    """The sentences of `accel bench`, as UTF-8: JSON carries nothing else."""
    found = obtain_sentences(config.model, job.path, job.count, job.tokens)
    return replace(found, lines=[line.decode("utf-8", "replace").encode() for line in found.lines])


class _Bench:
    """One server and what it is asked."""

    def __init__(
        self,
        config: Config,
        sentences: Sentences,
        known: Known,
        server: Server,
        job: Job,
        tell: Callable[[str], None],
    ) -> None:
        self._server, self._job, self._tell, self._count = server, job, tell, len(sentences)
        self.info = server.info()
        if self.info["plan"] != known.plan.keys():
            raise AccelError(
                f"not timed, because the server runs {self.info['plan']}, the engine {known.plan}"
            )
        tell(f"a server on port {server.port}: {known.plan}")
        self._requests = Requests(config.name, sentences.lines)
        self._answers = Answers(config.model.labels, known.predictions, TOLERANCE[known.plan.precision])
        self._sizes = [_BATCH] if known.plan.device == "cpu" else [_BATCH, _LARGE]

    @property
    def _admitted(self) -> int:
        return int(self.info["max_concurrent_requests"])

    def in_turns(
        self, engine: EngineProcess, load: Callable[[int, list[Request], int, float], Load]
    ) -> tuple[Timing, list[ServeRow]]:
        """The engine's seconds for all sentences, and the loads of each way."""
        job, port = self._job, self._server.port
        ways = self._ways()
        for way in ways:
            serve_client.run(self._check(way))
        asked = ", ".join(f"{way} over {way.connections} connections" for way in ways)
        self._tell(f"checked {asked}; timing them in turns, {job.repeats} times")
        found: list[list[Load]] = [[] for _ in ways]
        alone: list[float] = []
        for repeat in range(-1, job.repeats):  # before the first one, all that to warm up
            alone.append(engine.seconds())
            for way, loads in zip(ways, found, strict=True):
                loads.append(load(port, way.requests, way.connections, job.seconds))
                serve_client.run(serve_client.settle(port, self._requests.single(0).payload))
            if repeat < 0:
                alone.clear()
                for loads in found:
                    loads.clear()
        rows = [
            ServeRow(way.protocol, way.size, way.connections, tuple(loads))
            for way, loads in zip(ways, found, strict=True)
        ]
        return Timing(tuple(alone)), rows

    def soak(self) -> Soak:
        """Overload the server."""
        job, large = self._job, self._largest(self._sizes[-1])
        assert job.soak is not None
        soaking = Soaking(self._server, self._requests, self._answers, self._tell)
        return serve_client.run(
            soaking.run(self._count, large, self._admitted, max(1.0, job.seconds), job.soak)
        )

    def _ways(self) -> list[_Way]:
        choices = [(TEI, 1), (V2_JSON, _BATCH), *((V2_BINARY, size) for size in self._sizes)]
        ways = []
        for protocol, size in choices:
            size = self._largest(size)
            # no more than the server admits: a refusal is no figure
            most = _CLIENTS if protocol == TEI else _STREAMS
            connections = max(1, min(most, self._admitted // size))
            ways.append(_Way(protocol, size, connections, self._requests.cut(protocol, size)))
        return ways

    def _largest(self, size: int) -> int:
        """The sentences of a request: as many as are wanted, there, and taken at once."""
        return min(size, self._count, int(self.info["max_client_batch_size"]))

    async def _check(self, way: _Way) -> None:
        """AccelError if an answer is wrong."""
        connection = await Connection.open(self._server.port)
        for request in way.requests[:_CHECKED]:
            response = await connection.ask(request.payload)
            if response.status != 200 or not self._answers.right(request, response):
                raise AccelError(
                    f"not timed, because {way} from sentence {request.begin} on is answered otherwise than by"
                    f" the engine: status {response.status}, {response.body[:200]!r}"
                )
        connection.close()


def _noise(rows: list[ServeRow]) -> list[str]:
    """A warning for each row whose repeats lie so far apart that its figure is none."""
    return [
        f"the repeats of {row.protocol}, {row.n:,} sentences a request, differ by a factor of"
        f" {max(row.rates) / min(row.rates):.1f}: something else is running here; measure again on a quiet"
        " machine before you publish this"
        for row in rows
        if max(row.rates) > QUIET * min(row.rates)
    ]
