"""`accel serve`: an inference server."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import Real, configured, debug_option, model_options, option, plan_options
from accel_cli.errors import AccelError, UsageError

_PACKAGES = ("uvicorn", "httptools", "uvloop", "prometheus_client")
_SECONDS = Real(0.1, 3600)


@click.command(context_settings=HELP)
@option("--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 is everywhere.")
@option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one.")
@option(
    "--max-inflight",
    type=click.IntRange(1, 1 << 24),
    help="Texts that may be worked on before requests get 429.  [default: 512 on a CPU, 65536 on a GPU]",
)
@option(
    "--max-client-batch",
    type=click.IntRange(1, 1 << 20),
    default=8192,
    show_default=True,
    help="Texts in one request.",
)
@option("--max-batch-tokens", type=click.IntRange(1), help="Tokens computed at once.  [default: by the plan]")
@option(
    "--max-body-bytes",
    type=click.IntRange(1, 1 << 30),
    default=16 << 20,
    show_default=True,
    help="Of a request.",
)
@option(
    "--max-queue-delay-us",
    type=click.IntRange(0, 60_000_000),
    default=0,
    show_default=True,
    help="How long a batch may wait for others to join.",
)
@option("--header-seconds", type=_SECONDS, default=10, show_default=True, help="For a request's header.")
@option("--body-seconds", type=_SECONDS, default=30, show_default=True, help="For a request's body.")
@option("--idle-seconds", type=_SECONDS, default=75, show_default=True, help="Between two requests.")
@option(
    "--drain-seconds", type=_SECONDS, default=30, show_default=True, help="To finish after a signal to stop."
)
@option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file with the bearer token that clients must send.",
)
@option(
    "--log",
    "layout",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Of stderr.",
)
@option("--log-texts", is_flag=True, help="Log the texts of requests, too.")
@model_options
@plan_options
@debug_option
def command(
    host: str,
    port: int,
    max_inflight: int | None,
    max_client_batch: int,
    max_batch_tokens: int | None,
    max_body_bytes: int,
    max_queue_delay_us: int,
    header_seconds: float,
    body_seconds: float,
    idle_seconds: float,
    drain_seconds: float,
    token_file: Path | None,
    layout: str,
    log_texts: bool,
    config: str,
    device: str,
    **plan: str | int | None,
) -> None:
    """Serve a model over HTTP; needs the extra `serve`.

    \b
    accel serve --port 8000
    curl localhost:8000/predict -d '{"inputs": "What a lovely film."}'

    Speaks the Open Inference Protocol, and as Text Embeddings Inference and Hugging Face's endpoints do.
    The page at / is for people. SIGTERM: finish what is under way, then exit.
    """
    require_packages("accel serve")
    from accel_cli.serve.engine_link import EngineLink
    from accel_cli.serve.limits import limits_for
    from accel_cli.serve.logs import Log
    from accel_cli.serve.server import Address, Settings, listen, serve

    loaded = configured(config, **plan)
    with EngineLink(loaded, device) as engine:
        planned = engine.plan()
        limits = limits_for(
            loaded.model,
            planned,
            max_inflight=max_inflight,
            max_batch_tokens=max_batch_tokens,
            max_client_batch=max_client_batch,
            max_body_bytes=max_body_bytes,
            queue_delay=max_queue_delay_us / 1e6,
            header_timeout=header_seconds,
            body_timeout=body_seconds,
            idle_timeout=idle_seconds,
            drain_timeout=drain_seconds,
        )
        token = _token(token_file) if token_file else None
        with listen(Address(host, port)) as listener:
            log = Log(layout, texts=log_texts)
            try:
                kind = planned.device.partition(":")[0]
                serve(Settings(loaded, kind, engine, limits, log, token), listener)
            finally:
                log.close()


def require_packages(what: str) -> None:
    """AccelError if a package of the extra `serve`, which `what` needs, is missing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise AccelError(
            f"{what} needs {', '.join(missing)}, not installed here: in a checkout, say"
            ' pip install ".[serve]"'
        )


def _token(path: Path) -> str:
    """The one word that a file holds."""
    try:
        words = path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII"
        raise UsageError(f"--token-file {path}: {reason}; name a file that holds the token") from error
    if len(words) != 1:
        raise UsageError(f"--token-file {path}: {len(words)} words; the file must hold one token and no more")
    return words[0]
