"""Load from `wrk`, a generator written in C: it leaves the cores to the server."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from accel_cli.bench.serve_client import Load, unanswered
from accel_cli.bench.serve_requests import Request
from accel_cli.errors import AccelError

_WORD = "figures"
_DIGITS = 9  # of a request's length before it in the file
_SCRIPT = f"""\
local requests, at = {{}}, 0

function init(args)
  local file = io.open(args[1], "rb")
  while true do
    local size = file:read({_DIGITS})
    if not size then break end
    requests[#requests + 1] = file:read(tonumber(size))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, _)
  local e = summary.errors
  print(string.format("{_WORD} %d %d %d %d %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def installed() -> str | None:
    """Name and version of the program, if it is there."""
    if shutil.which("wrk") is None:
        return None
    words = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    return f"wrk {words[1].rpartition('/')[2]}" if len(words) > 1 else "wrk ?"


def load(port: int, requests: Sequence[Request], connections: int, seconds: float) -> Load:
    """Load the server for whole seconds, all requests in turn; AccelError if one is not answered well."""
    with tempfile.TemporaryDirectory(prefix="accel-bench-") as folder:
        script, file = Path(folder) / "requests.lua", Path(folder) / "requests"
        script.write_text(_SCRIPT)
        file.write_bytes(b"".join(b"%0*d%s" % (_DIGITS, len(r.payload), r.payload) for r in requests))
        line = [
            "wrk", "--threads", "1", "--connections", str(connections), "--timeout", "60s",
            "--duration", f"{math.ceil(seconds)}s", "--script", str(script),
            f"http://127.0.0.1:{port}", "--", str(file),
        ]  # fmt: skip
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = next((text.split()[1:] for text in done.stdout.splitlines() if text.startswith(_WORD)), None)
    if found is None:
        raise AccelError(f"wrk failed: {(done.stderr or done.stdout).strip()[-300:]}; take it out of PATH")
    answered, microseconds, p50, p99, failed = map(int, found)
    if failed:
        raise unanswered(failed)
    if not answered:
        raise AccelError(f"no answer came within {seconds:g} s; load the server for longer with --seconds")
    return Load(answered, microseconds / 1e6, p50 / 1e6, p99 / 1e6)
