"""Starting a cluster, losing parts of it, and running `accel run` on it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import ROOT, clean_environment, command, read

PATIENCE = 240.0  # seconds for what takes twenty on an idle machine
_NODE = {"num_cpus": 1, "resources": {"accel": 1}, "object_store_memory": 80 << 20}


class Nodes:
    """Two nodes, each with a core and one slot for a worker."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._second = cluster.add_node(**_NODE)
        cluster.wait_for_nodes()

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Nodes]:
        """The nodes until the end of the tests."""
        deadly = Path(__file__).with_name("deadly")
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": f"{deadly}:{ROOT}"}
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "include_dashboard": False})
        try:
            yield cls(cluster)
        finally:
            cluster.shutdown()

    @property
    def address(self) -> str:
        """What --address takes."""
        return str(self._cluster.address)

    def lose_one(self) -> None:
        """End the second node at once, with all that runs on it."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def add_one(self) -> None:
        """A node in the place of one that was lost."""
        self._second = self._cluster.add_node(**_NODE)
        self._cluster.wait_for_nodes()

    def workers(self) -> list[int]:
        """The processes of actors that have begun."""
        return self.processes(b"ray::ShardActor")

    def processes(self, words: bytes) -> list[int]:
        """The processes below these nodes that have some words in their command line."""
        raylets = {
            one.process.pid
            for node in self._cluster.list_all_nodes()
            for one in node.all_processes.get("raylet", [])
        }
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if words in read(pid, "cmdline") and raylets & set(ancestors(pid))]


def ancestors(pid: int) -> Iterator[int]:
    """The parent of a process, that one's parent, and so on."""
    while pid > 1:
        fields = read(pid, "stat").rpartition(b") ")[2].split()
        if not fields:
            return
        pid = int(fields[1])
        yield pid


def begin(config: Path, nodes: Nodes, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """`accel run` on the cluster, as a process of its own."""
    return subprocess.Popen(
        command("run", "--engine", "ray", "--address", nodes.address, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(config),
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Its exit code and what it said; it is killed if it takes too long."""
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        raise AssertionError(f"it did not end: {said.decode()}") from None
    return process.returncode, said.decode()


def until(look: Callable[[], Any]) -> Any:
    """What `look` finds in the end."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it never happened")


def kill(pid: int) -> None:
    """As kill -9."""
    os.kill(pid, signal.SIGKILL)
