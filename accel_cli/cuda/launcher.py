"""Running launches on a device: modules are loaded once, arguments are packed, everything is asynchronous."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_cli import resources
from accel_cli.cuda import driver
from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.device import DeviceFacts, cupy
from accel_cli.cuda.ready import ReadyKernels
from accel_cli.errors import DeviceError, UsageError
from accel_cli.kernels.base import Launch

_STATIC_LIMIT = 48 << 10  # dynamic shared memory beyond this must be asked for


@dataclass
class Loading:
    """Kernels loaded so far, of them those from a folder and those compiled, and the seconds it all took."""

    kernels: int = 0
    ready: int = 0
    compiled: int = 0
    seconds: float = 0.0


class Launcher:
    """Runs launches on CuPy's current stream. Modules stay loaded as long as the launcher lives.

    `debug` is one of compiler.DEBUG; `kernels` a folder that `accel compile` made, or nothing.
    """

    def __init__(
        self, device: DeviceFacts, sources: Path = resources.KERNELS, *, debug: str = "", kernels: str = ""
    ) -> None:
        if debug and kernels:
            raise UsageError(
                f"--kernels {kernels}: kernels for debuggers (--kernel-debug {debug}) are compiled here;"
                " leave one of them out"
            )
        self.cache = KernelCache(device.architecture, sources, debug=debug)
        self.loading = Loading()
        self._folder = Path(kernels) if kernels else None
        self._cubins = ReadyKernels(self._folder, self.cache) if self._folder else self.cache
        # Launched one after the other, such kernels find nothing to wait for.
        self._overlapping = device.capability >= (9, 0) and device.driver >= driver.PROGRAMMATIC
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._modules: list[Any] = []

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Enqueue one launch."""
        packed, function = launch.kernel.pack(arguments), self.function(launch)
        if self._overlapping and launch.kernel.overlaps:
            driver.launch_overlapping(function, launch, packed)
        else:
            function(launch.grid, launch.block, packed, shared_mem=launch.shared_bytes)

    def function(self, launch: Launch) -> Any:
        """The loaded kernel of a launch."""
        variant = launch.kernel.name, launch.defines, launch.block, launch.shared_bytes
        if variant not in self._functions:
            self._functions[variant] = self._load(launch)
        return self._functions[variant]

    def _load(self, launch: Launch) -> Any:
        begin = time.perf_counter()
        cubin = self._cubins.cubin(launch.kernel.name, launch.defines)
        module = cupy().RawModule(path=str(cubin))
        function = module.get_function(launch.kernel.name)
        self._modules.append(module)
        self.loading.kernels += 1
        self.loading.ready += cubin.parent == self._folder
        self.loading.compiled = self.cache.compiled
        self.loading.seconds += time.perf_counter() - begin
        if launch.shared_bytes > _STATIC_LIMIT:
            try:
                function.max_dynamic_shared_size_bytes = launch.shared_bytes
            except Exception as error:
                raise DeviceError(
                    f"kernel {launch.kernel.name} needs {launch.shared_bytes} bytes of shared memory a block,"
                    f" more than this device gives ({error})"
                ) from error
        return function
