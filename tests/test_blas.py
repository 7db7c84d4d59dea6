"""BLAS keeps to one thread while an engine computes, and gets its setting back."""

from __future__ import annotations

import networks
from threadpoolctl import ThreadpoolController

from accel_cli.engines.cpu import CpuEngine


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()}


def test_an_engine_computes_with_one_blas_thread_and_puts_the_setting_back() -> None:
    spec = networks.RAGGED
    engine = CpuEngine(spec, networks.weights_of(spec), networks.plan("cpu"))
    seen: set[int] = set()
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        engine._logits(networks.sentences(spec, [8, 9]), lambda name, _: seen.update(blas_threads()))
        assert seen == {1}
        assert blas_threads() == {2}
        tickets = [engine.submit(networks.sentences(spec, [9] * 300)) for _ in range(20)]
        for ticket in tickets:
            ticket.result()
        assert blas_threads() == {2}
    engine.close()
