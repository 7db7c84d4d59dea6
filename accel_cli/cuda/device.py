"""Finding the GPU, and saying plainly why there is none."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from accel_cli.errors import DeviceError, UsageError

MINIMUM = (8, 0)  # the oldest architecture that `make kernels` compiles for

INSTALL = (
    'install CuPy from a checkout with `pip install ".[cuda13]"` (driver 580 or newer) or'
    ' `pip install ".[cuda12]"`'
)
USE_CPU = "or use `--device cpu`"
_stand_in: ContextVar[Any] = ContextVar("stand_in", default=None)


@dataclass(frozen=True)
class DeviceFacts:
    """What a GPU says of itself. Sizes in bytes; versions as CUDA writes them, 13000 for 13.0."""

    index: int
    name: str
    capability: tuple[int, int]
    processors: int
    memory: int
    l2: int
    driver: int
    runtime: int

    @property
    def architecture(self) -> str:
        """The name that the compiler knows this device by, with the features of that device alone."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if self.capability >= (9, 0) else "")


def missing() -> str | None:
    """Why no GPU can be used here, or None if one can; says what to do."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is installed (libcuda.so.1 is missing): install one"
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed: {INSTALL}"
    try:
        count = cupy().cuda.runtime.getDeviceCount()
    except DeviceError as error:
        return str(error)
    except Exception as error:
        return f"the NVIDIA driver gives no device ({error}): update the driver"
    return None if count else "the NVIDIA driver sees no device: check `nvidia-smi`"


@contextmanager
def standing_in(module: Any) -> Iterator[None]:
    """Inside, and in this thread alone, `cupy` gives `module`."""
    token = _stand_in.set(module)
    try:
        yield
    finally:
        _stand_in.reset(token)


def cupy() -> ModuleType:
    """The cupy module, imported when first asked for."""
    if (other := _stand_in.get()) is not None:
        found: ModuleType = other
        return found
    try:
        import cupy as module
    except ImportError as error:
        raise DeviceError(f"CuPy cannot be imported ({error}): {INSTALL}") from error
    loaded: ModuleType = module
    return loaded


def known(device: object) -> str:
    """The name of a device, if it is one; else UsageError."""
    if isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", device):
        return device
    raise UsageError(
        f"the device {device!r} is not one of auto, cpu, cuda, cuda:N; several, as cuda:N,M or cuda:all, are"
        " for `accel run` into a folder and `accel bench --suite scaling`"
    )


def names_several(device: str) -> bool:
    """Whether a name stands for several GPUs: cuda:all, or cuda:N,M and so on."""
    return re.fullmatch(r"cuda:(all|[0-9]{1,4}(,[0-9]{1,4})+)", device) is not None


def choose(device: str) -> str:
    """`auto`, `cpu`, `cuda` or `cuda:N` as "cpu" or "cuda:N"; DeviceError if it is not there."""
    known(device)
    if device == "cpu":
        return "cpu"
    reason = missing()
    if device == "auto":
        return "cpu" if reason else "cuda:0"
    if reason:
        raise DeviceError(f"--device {device}: {reason}, {USE_CPU}")
    index = int(device.partition(":")[2] or 0)
    count = cupy().cuda.runtime.getDeviceCount()
    if index >= count:
        there = "is 1 device, cuda:0" if count == 1 else f"are {count} devices, cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"--device {device}: there {there}")
    return f"cuda:{index}"


def choose_gpu(device: str, what: str) -> str:
    """`auto`, `cuda` or `cuda:N` as "cuda:N", for `what`, which no CPU can do.

    UsageError for a CPU, DeviceError if the GPU is not there.
    """
    if known(device) == "cpu":
        raise UsageError(f"--device cpu: {what} needs a GPU; name one with --device cuda:N")
    if reason := missing():
        raise DeviceError(f"{what} needs a GPU, and {reason}")
    return choose("cuda" if device == "auto" else device)


def index_of(device: str) -> int:
    """The N of "cuda:N"."""
    return int(device.partition(":")[2])


def facts(index: int) -> DeviceFacts:
    """The facts of device `index`; DeviceError if it is too old."""
    runtime: Any = cupy().cuda.runtime
    properties = runtime.getDeviceProperties(index)
    found = DeviceFacts(
        index=index,
        name=properties["name"].decode(),
        capability=(properties["major"], properties["minor"]),
        processors=properties["multiProcessorCount"],
        memory=properties["totalGlobalMem"],
        l2=properties["l2CacheSize"],
        driver=runtime.driverGetVersion(),
        runtime=runtime.runtimeGetVersion(),
    )
    if found.capability < MINIMUM:
        have, least = (".".join(map(str, version)) for version in (found.capability, MINIMUM))
        raise DeviceError(
            f"{found.name} has compute capability {have}, accel needs {least} or newer; name another GPU"
            f" with --device cuda:N, {USE_CPU}"
        )
    return found


def free_memory(index: int) -> int:
    """The bytes of memory that can be had on device `index` now, those that CuPy keeps for later included."""
    module = cupy()
    with module.cuda.Device(index):
        free, _ = module.cuda.runtime.memGetInfo()
        return int(free) + int(module.get_default_memory_pool().free_bytes())
