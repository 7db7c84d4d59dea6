"""In every worker of the cluster of the tests: two things that shards do to who begins them.

The third one of a file deadly.txt kills it; those of any file from number 20 on keep it waiting while
there is another file of that name and .held, beside which they leave one named after the worker.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

if any("default_worker" in word for word in sys.orig_argv):
    from accel_cli.shards.shard import Shard
    from accel_cli.shards.worker import ShardWorker

    well = ShardWorker.write

    def write(self: ShardWorker, shard: Shard, *rest: Any) -> Any:
        if shard.path.endswith("/deadly.txt") and shard.number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        while shard.number >= 20 and os.path.exists(held := f"{shard.path}.held"):
            Path(f"{held}.{os.getpid()}").touch()
            time.sleep(0.02)
        return well(self, shard, *rest)

    ShardWorker.write = write  # type: ignore[method-assign]
