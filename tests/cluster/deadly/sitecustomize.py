"""In every worker of the cluster of the tests: the third shard of a file deadly.txt kills who begins it."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

if any("default_worker" in word for word in sys.orig_argv):
    from accel_cli.shards.shard import Shard
    from accel_cli.shards.worker import ShardWorker

    well = ShardWorker.run

    def run(self: ShardWorker, shard: Shard, *rest: Any) -> Any:
        if shard.path.endswith("/deadly.txt") and shard.number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return well(self, shard, *rest)

    ShardWorker.run = run  # type: ignore[method-assign]
