"""Options of `accel run` that are for a folder of part files."""

from __future__ import annotations

from dataclasses import dataclass

import click

from accel_cli.commands.options import Command, Size, option
from accel_cli.cuda.device import names_several
from accel_cli.errors import UsageError

ENGINES = ("local", "ray")


def folder_options(command: Command) -> Command:
    """--shard-size, --resume, --merge, --workers, --engine and --address."""
    for decorate in (
        option("--address", help="The Ray cluster: auto, local, or host:port.  [default: auto]"),
        option(
            "--engine",
            type=click.Choice(ENGINES),
            default="local",
            show_default=True,
            help="Who runs the shards: this machine, or a Ray cluster.",
        ),
        option(
            "--workers",
            type=click.IntRange(1, 1024),
            help="Processes that write part files; on a CPU they share the cores.  [default: one for each GPU"
            " named]",
        ),
        option(
            "--merge", "merged", metavar="FILE", help="Write all parts of the folder, in order, to one file."
        ),
        option("--resume", is_flag=True, help="Go on with a run that was cut short: write what is missing."),
        option(
            "--shard-size",
            type=Size(),
            help="Bytes of input that go into a part file, cut at a line's end, as 64M.  [default: 256M for a"
            " GPU, 4M for a CPU]",
        ),
    ):
        command = decorate(command)
    return command


@dataclass(frozen=True)
class Sharding:
    """How to cut the input up, who works, and what becomes of what is there."""

    size: int | None = None
    workers: int | None = None
    resume: bool = False
    overwrite: bool = False
    merged: str | None = None
    engine: str = "local"
    address: str | None = None

    def refuse(self, device: str) -> None:
        """UsageError if something is said that has a meaning for a folder alone."""
        said = {
            "--shard-size": self.size,
            f"--workers {self.workers}": self.workers,
            "--resume": self.resume,
            f"--merge {self.merged}": self.merged,
            f"--engine {self.engine}": self.engine != "local",
            f"--address {self.address}": self.address,
            f"--device {device}": names_several(device),
        }
        for name, value in said.items():
            if value:
                raise UsageError(
                    f"{name} is for an output of several files; name a folder, as --output labels/, or leave"
                    " it out"
                )

    def check(self) -> None:
        """UsageError if these do not go together."""
        if self.resume and self.overwrite and self.merged is None:
            raise UsageError("--resume goes on with a run, --overwrite begins it again; say one of them")
        if self.address is not None and self.engine != "ray":
            raise UsageError(f"--address {self.address} is that of a Ray cluster; say --engine ray too")
        if self.workers is not None and self.engine == "ray":
            raise UsageError(
                f"--workers {self.workers}: a Ray cluster has a worker for each GPU or core; leave it out"
            )
