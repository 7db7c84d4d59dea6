"""Looking for the fastest tile of each product, at the place and time where a network computes it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol

import numpy as np

from accel_cli.bench.device_clock import device_times, finish
from accel_cli.cuda.device import DeviceFacts, cupy
from accel_cli.cuda.errors import DeviceLost, translated
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.tuned import Kind, Product, Winner, numbers
from accel_cli.errors import AccelError, DeviceError
from accel_cli.kernels import sgemm
from accel_cli.kernels.base import Launch, Runner
from accel_cli.kernels.sgemm import Epilogue, Rows, geometry
from accel_cli.kernels.sgemm_tile import STEP, Tile, candidates

DEPTH, STAGES = 16, 3  # of every shape's first trial: what most shapes take
_REPEATS = 5
_TURNS = 3
_BETTER = 1.005  # times as fast as the present tile, or it stays: less is noise
_HOPELESS = 1.3  # times the fastest tile's seconds in a first run, beyond which no second one is made
_SHAPES, _STEPS = (
    0.5,
    0.85,
)  # of the time for a product: until then shapes, then steps and stages; then the best
_FINALISTS = 3  # whose other steps and stages are tried
_KINDS: dict[tuple[Rows, Epilogue], Kind] = {
    (Rows.WINDOWS, Epilogue.GETMAX): "windows",
    (Rows.IDS, Epilogue.GETMAX): "ids",
    (Rows.MATRIX, Epilogue.EXPERTS): "experts",
}


class Compiler(Protocol):
    """Has kernels compiled before they are launched (see bench.ahead)."""

    def compiled(self, launches: Iterable[Launch], end: float) -> Iterator[tuple[Launch, str]]:
        """Each launch as soon as it is compiled, and what went wrong, or ""; until `end`, monotonic."""
        ...


@dataclass(frozen=True)
class Found:
    """What the search came to: the fastest tile, and the one that served before."""

    winner: Winner
    before: Winner
    tried: int

    def __str__(self) -> str:
        now, then = self.winner, self.before
        gain = 100 * (now.tflops / then.tflops - 1)
        return (
            f"{now.product}: {numbers(now.tile)} at {now.tflops:.1f} TFLOP/s, {gain:+.1f} %"
            f" ({numbers(then.tile)} before; {self.tried} tried)"
        )


class TileSearch:
    """A runner that hands launches on, and takes note of each product of sgemm that comes by.

    After `begin` it stops at each product that it has not met since, and tries tiles on the operands that
    lie there. The product's result is the same whatever the tile, to the bit; a tile that gives another one
    is refused by name.
    """

    def __init__(
        self,
        run: Runner,
        device: DeviceFacts,
        compiler: Compiler,
        tell: Callable[[str], None],
        keep: Callable[[Winner], None] = lambda winner: None,
    ) -> None:
        self._run, self._device, self._compiler = run, device, compiler
        self._tell, self._keep = tell, keep
        self._rule = Tiles(device)
        self._deadline: float | None = None
        self.products: list[Product] = []
        self.found: dict[Product, Found] = {}

    def begin(self, seconds: float) -> None:
        """Search from now on, for about so long. Products that come later than that keep their tiles."""
        self._deadline = time.monotonic() + seconds

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Enqueue one launch; while searching, its result is there when this returns."""
        if launch.kernel == sgemm.KERNEL:
            product = product_of(launch, arguments)
            if product not in self.products:
                self.products.append(product)
            left = 0.0 if self._deadline is None else self._deadline - time.monotonic()
            if left > 0 and product not in self.found:
                share = left / max(1, len(self.products) - len(self.found))
                with translated(f"trying tiles for {product}"):
                    found = self._search(Trial(self._run, launch, arguments), product, share)
                self.found[product] = found
                self._keep(found.winner)
                self._tell(str(found))
                return
        self._run(launch, *arguments)

    def _search(self, trial: Trial, product: Product, seconds: float) -> Found:
        """First all shapes of blocks and threads, then other steps and stages of the fastest ones."""
        begin = time.monotonic()
        before = trial.tile
        times = {before: trial.seconds(before)}
        legal = [tile for tile in candidates(self._device.capability) if STEP % tile.depth == 0]
        plain = [tile for tile in legal if (tile.depth, tile.stages) == (DEPTH, STAGES)]
        plain.sort(key=lambda tile: -self._promise(tile, product))
        self._try(trial, plain, times, begin + _SHAPES * seconds)
        finalists = {_shape(tile) for tile in sorted(times, key=times.__getitem__)[:_FINALISTS]}
        deeper = [tile for tile in legal if _shape(tile) in finalists]
        self._try(trial, deeper, times, begin + _STEPS * seconds)
        best_ones = sorted(times, key=times.__getitem__)[:_FINALISTS]
        final = self._in_turns(trial, dict.fromkeys((before, *best_ones)), begin + seconds)
        trial.restore()
        best = min(final, key=final.__getitem__)
        if final[before] < final[best] * _BETTER:
            best = before
        winner, present = (
            Winner(product, tile, product.flop / final[tile] / 1e12) for tile in (best, before)
        )
        return Found(winner, present, len(times))

    def _in_turns(self, trial: Trial, tiles: Iterable[Tile], end: float) -> dict[Tile, float]:
        """The seconds of some tiles, in turns, so that a drifting clock rate is nobody's advantage."""
        turns: list[dict[Tile, float]] = []
        while not turns or (len(turns) < _TURNS and time.monotonic() < end):
            turns.append({tile: trial.seconds(tile) for tile in tiles})
        return {tile: median(turn[tile] for turn in turns) for tile in tiles}

    def _try(self, trial: Trial, tiles: list[Tile], times: dict[Tile, float], end: float) -> None:
        """Check and time tiles that have no time yet, as they are compiled, until `end`."""
        launches = {trial.launch(tile): tile for tile in tiles if tile not in times}
        for launch, fault in self._compiler.compiled(launches, end):
            tile = launches[launch]
            try:
                if fault:
                    raise DeviceError(fault)
                with translated(f"trying the tile {numbers(tile)}"):
                    if not trial.right(tile):
                        raise WrongTile("its result differs from that of the tile in use")
                    times[tile] = trial.seconds(tile, hopeless=min(times.values()) * _HOPELESS)
            except DeviceLost:
                raise
            except (DeviceError, WrongTile) as error:
                self._tell(f"{trial.product}: the tile {numbers(tile)} is refused: {error}")

    def _promise(self, tile: Tile, product: Product) -> float:
        """How good a tile looks: what its blocks make of the device, and its threads of each read."""
        each = tile.thread_rows * tile.thread_columns / (tile.thread_rows + tile.thread_columns)
        return self._rule.predicted(tile, product) * math.sqrt(each)


class WrongTile(AccelError):
    """A tile gives other bits than the one that was checked."""


class Trial:
    """One launch of sgemm with its operands in place, that may be repeated with other tiles."""

    def __init__(self, run: Runner, launch: Launch, arguments: tuple[Any, ...]) -> None:
        self._run, self.arguments = run, arguments
        self._constants = dict(launch.defines)
        self.product = product_of(launch, arguments)
        self.tile = Tile(*(self._constants[name] for name in ("BM", "BN", "BK", "TM", "TN", "STAGES")))
        self._y = _named(arguments)["y"]
        finish()
        self._before = self._y.copy()  # a maximum goes on from what lies there
        self._right = self._result(self.tile)

    def launch(self, tile: Tile) -> Launch:
        """The same launch by another tile."""
        constants, product = self._constants, self.product
        kind = Rows(constants["ROWS"]), Epilogue(constants["EPILOGUE"]), bool(constants["BIAS"])
        return geometry(product.rows, product.columns, product.batch, *kind, constants["EXPERTS"], tile)

    def right(self, tile: Tile) -> bool:
        """Whether the result has the bits of the tile in use."""
        return bool((self._result(tile) == self._right).all())

    def seconds(self, tile: Tile, hopeless: float = float("inf")) -> float:
        """The median of some runs, or the first one if that is over `hopeless`."""
        launch = self.launch(tile)
        return device_times([lambda: self._run(launch, *self.arguments)], _REPEATS, hopeless).median

    def restore(self) -> None:
        """Leave the right result behind."""
        self._y[...] = self._right.view(self._y.dtype)

    def _result(self, tile: Tile) -> Any:
        """The bits of y after one launch; what it does not write has those that were there, or NaN's."""
        stream = cupy().cuda.get_current_stream()
        if self._constants["EPILOGUE"] == Epilogue.GETMAX:
            self._y[...] = self._before
        else:
            self._y.data.memset_async(0xFF, self._y.nbytes, stream)
        self._run(self.launch(tile), *self.arguments)
        finish()
        return self._y.view(np.uint32).copy()


def product_of(launch: Launch, arguments: tuple[Any, ...]) -> Product:
    """What a launch of sgemm multiplies."""
    named, constants = _named(arguments), dict(launch.defines)
    kind = _KINDS.get((Rows(constants["ROWS"]), Epilogue(constants["EPILOGUE"])), "plain")
    return Product(int(named["rows"]), int(named["columns"]), int(named["depth"]), launch.grid[2], kind)


def _named(arguments: tuple[Any, ...]) -> dict[str, Any]:
    names = (parameter.name for parameter in sgemm.KERNEL.parameters)
    return dict(zip(names, arguments, strict=True))


def _shape(tile: Tile) -> Tile:
    """A tile without its step and stages."""
    return replace(tile, depth=DEPTH, stages=STAGES)
