"""`accel bench --suite gemm`: its end."""

from __future__ import annotations

from accel_cli.bench import gemm, gemm_report, tensor_gemm
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import say


def measure_products(device: str, precision: str, repeats: int, end: Publication) -> None:
    """Measure matrix products on a GPU, print them and write their figures."""
    tell = elapsed(say)
    if precision == "fp32":
        end.of(lambda: gemm.run(device, repeats, tell), gemm_report.show)
    else:
        end.of(lambda: tensor_gemm.run(device, precision, repeats, tell), gemm_report.show)
