"""accel::fused_relu_add beside eager PyTorch and a copy, on a GPU.

python -m accel_cli.torch.bench --json FILE [--device cuda:N] [--repeats N] [--overwrite]

Three passes over memory are needed: x and y are read, the result is written. A copy makes two, and their rate
is what the three are held against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import torch
from torch import Tensor

from accel_cli.bench.device_clock import device_times
from accel_cli.bench.elapsed import elapsed
from accel_cli.bench.measure import Timing, short
from accel_cli.bench.terminal import console, table
from accel_cli.cuda.device import DeviceFacts, choose_gpu, cupy, facts, index_of
from accel_cli.cuda.errors import translated
from accel_cli.errors import AccelError
from accel_cli.provenance import provenance
from accel_cli.text.writers import claim, opened_output
from accel_cli.torch.relu_add import fused_relu_add

SHAPES = ((16384, 1024), (65536, 1024), (16384, 4096))  # rows and columns; 16 and 64 million elements
TOLERANCES = {
    torch.float32: 1e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 2e-1,
}  # of values up to 16, for eager too
COPY, EAGER, COMPILED, ACCEL = "copy", "eager", "torch.compile", "accel"
_PASSES = {COPY: 2}  # over memory; of all others 3
_CLOCK = (
    "one call on the device, by events around a millisecond of them or one; operands larger than any cache"
)


@dataclass(frozen=True)
class Row:
    """One program at one size and type; `max_error` against float64."""

    program: str
    dtype: str
    rows: int
    columns: int
    bytes_an_element: int
    timing: Timing
    max_error: float

    @property
    def work(self) -> tuple[str, int, int]:
        """What rows have in common that are compared."""
        return self.dtype, self.rows, self.columns

    @property
    def byte_rate(self) -> float:
        """Bytes a second in the middle repeat, counting the passes that are needed."""
        elements = self.rows * self.columns
        return _PASSES.get(self.program, 3) * elements * self.bytes_an_element / self.timing.median

    def as_json(self, others: Sequence[Row]) -> dict[str, Any]:
        """The row as it is published, beside those of the same size and type; `repeats` in seconds."""
        seconds = self.timing.seconds
        of = {row.program: row for row in others if row.work == self.work}
        return {
            "program": self.program,
            "dtype": self.dtype,
            "rows": self.rows,
            "columns": self.columns,
            "elements": self.rows * self.columns,
            "us": short(1e6 * self.timing.median),
            "us_min": short(1e6 * min(seconds)),
            "us_max": short(1e6 * max(seconds)),
            "gb_per_s": short(self.byte_rate / 1e9),
            "percent_of_copy": short(100 * self.byte_rate / of[COPY].byte_rate),
            "x_eager": None if self.program == COPY else short(of[EAGER].timing.median / self.timing.median),
            "max_error": self.max_error,
            "repeats": [short(value) for value in seconds],
        }


def measure(
    device: torch.device,
    repeats: int,
    tell: Callable[[str], None],
    shapes: Iterable[tuple[int, int]] = SHAPES,
) -> list[Row]:
    """Check each program, then time it; AccelError, before anything of it is timed, if it is wrong."""
    found = []
    for rows, columns in shapes:
        for dtype in TOLERANCES:
            tell(f"{rows} x {columns} of {dtype}")
            found += _rows(device, dtype, rows, columns, repeats)
    return found


def _rows(device: torch.device, dtype: torch.dtype, rows: int, columns: int, repeats: int) -> list[Row]:
    generator = torch.Generator(device).manual_seed(rows)
    x, y = (torch.randn(rows, columns, device=device, dtype=dtype, generator=generator) for _ in range(2))
    bias, into = torch.randn(columns, device=device, dtype=dtype, generator=generator), torch.empty_like(x)
    exact = _eager(x.double(), y.double(), bias.double())
    programs: dict[str, tuple[Callable[[], Any], Tensor]] = {
        COPY: (partial(into.copy_, x), x),
        EAGER: (partial(_eager, x, y, bias), exact),
        ACCEL: (partial(fused_relu_add, x, y, bias), exact),
    }
    if _can_compile():
        torch.compiler.reset()  # PyTorch compiles a function eight times at most, then runs it eager
        programs[COMPILED] = partial(torch.compile(_eager, dynamic=False), x, y, bias), exact
    made = []
    for program, (call, expected) in programs.items():
        error = float((call().double() - expected).abs().max())
        if not error <= TOLERANCES[dtype]:  # NaN is not
            raise AccelError(
                f"not timed, because {program} is wrong by {error:g} at {rows} x {columns} of {dtype}"
            )
        timing = device_times([call], repeats)
        made.append(
            Row(program, str(dtype).removeprefix("torch."), rows, columns, x.element_size(), timing, error)
        )
    return made


def _eager(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(x) + y + bias


def _can_compile() -> bool:
    """Whether torch.compile makes kernels for GPUs here: it needs triton."""
    from torch.utils._triton import has_triton

    return bool(has_triton())


def report(device: str, gpu: DeviceFacts, rows: Sequence[Row]) -> dict[str, Any]:
    """What is published."""
    return {
        "suite": "relu-add",
        "device": device,
        **provenance(gpu, (f"pytorch {torch.__version__}",)),
        "clock": _CLOCK,
        "rows": [row.as_json(rows) for row in rows],
    }


def show(document: dict[str, Any]) -> None:
    """Print the table on stdout."""
    lines = table(("program", "type", "shape"), ("us", "GB/s", "% of copy", "x eager", "max error"))
    for row in document["rows"]:
        faster = "-" if row["x_eager"] is None else f"{row['x_eager']:.2f}"
        lines.add_row(
            *(row["program"], row["dtype"], f"{row['rows']}x{row['columns']}", f"{row['us']:,.1f}"),
            *(f"{row['gb_per_s']:,.0f}", f"{row['percent_of_copy']:.1f}", faster, f"{row['max_error']:.1e}"),
        )
    console().print(lines)


@click.command()
@click.option("--json", "path", help="The file to write the figures to.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option("--device", default="cuda", show_default=True, help="cuda or cuda:N.")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True)
def main(path: str | None, overwrite: bool, device: str, repeats: int) -> None:
    """Measure fused_relu_add on a GPU."""
    try:
        place = choose_gpu(device, "accel_cli.torch.bench")
        if not torch.cuda.is_available():
            raise AccelError(
                f"--device {device}: this PyTorch ({torch.__version__}) has no CUDA; install one that has"
            )
        gpu = facts(index_of(place))
        if path is not None:
            claim(path, overwrite)
        with cupy().cuda.Device(gpu.index), torch.cuda.device(gpu.index), translated("measuring"):
            rows = measure(torch.device(place), repeats, elapsed(partial(click.echo, err=True)))
        document = report(place, gpu, rows)
        show(document)
        if path is not None:
            with opened_output(path, overwrite) as file:
                file.write((json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
    except AccelError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
