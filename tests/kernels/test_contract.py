"""What holds for every kernel file: a twin that agrees, a test that runs it here, and no inline PTX."""

import importlib
import re
from pathlib import Path

import pytest

from accel_cli.kernels.base import Array, Kernel
from accel_cli.resources import KERNELS

NAMES = sorted(path.stem for path in KERNELS.glob("*.cu"))
HERE = Path(__file__).parent

WITHOUT_A_HOST_RUN: list[str] = []  # the exceptions; there are none

C_TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "__half": "float16",
    "half": "float16",
    "__nv_bfloat16": "uint16",  # numpy has no such type: arrays of bfloat16 travel as their bits
}


def code_of(path: Path) -> str:
    """The text of a kernel without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def signature(code: str, name: str) -> list[tuple[str, str, str]]:
    """Name, numpy type and kind ("in", "out" or "value") of each parameter of a kernel."""
    match = re.search(r'extern\s+"C"\s+__global__[^{;]*?\b' + name + r"\s*\(([^)]*)\)\s*\{", code)
    assert match, f'no extern "C" __global__ function {name}'
    parameters = []
    for text in match[1].split(","):
        words = re.sub(r"__restrict__|__grid_constant__|\*", " ", text).split()
        constant, kind = "const" in words, "value"
        c_type = " ".join(word for word in words[:-1] if word != "const")
        if "*" in text:
            kind = "in" if constant else "out"
        assert c_type in C_TYPES, f"parameter {text.strip()}: no numpy type is known for {c_type}"
        parameters.append((words[-1], C_TYPES[c_type], kind))
    return parameters


def described(kernel: Kernel) -> list[tuple[str, str, str]]:
    """The same, as a twin has it."""
    return [
        (p.name, p.dtype, ("out" if p.written else "in") if isinstance(p, Array) else "value")
        for p in kernel.parameters
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_twin_has_the_parameters_of_the_kernel(name: str) -> None:
    kernel = importlib.import_module(f"accel_cli.kernels.{name}").KERNEL
    assert kernel.name == name
    assert described(kernel) == signature(code_of(KERNELS / f"{name}.cu"), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_waits_for_those_before_it_if_its_twin_says_so(name: str) -> None:
    """The others are launched when those before have ended, so that a wait would say what is not so."""
    kernel = importlib.import_module(f"accel_cli.kernels.{name}").KERNEL
    assert kernel.overlaps == ("wait_for_kernels_before();" in code_of(KERNELS / f"{name}.cu"))


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_runs_on_the_host(name: str) -> None:
    if name in WITHOUT_A_HOST_RUN:
        return
    test = HERE / f"test_{name}.py"
    assert test.is_file(), f"kernel {name} has no tests/kernels/test_{name}.py: see docs/testing.md"
    text = test.read_text(encoding="utf-8")
    assert f"from accel_cli.kernels.{name} import" in text
    assert "backend: Backend" in text, f"{test.name} does not take the fixture `backend`"


def test_every_twin_has_a_kernel() -> None:
    modules = {path.stem for path in (KERNELS.parent / "accel_cli/kernels").glob("*.py")} - {"__init__"}
    twins = [
        name for name in modules if hasattr(importlib.import_module(f"accel_cli.kernels.{name}"), "KERNEL")
    ]
    assert sorted(twins) == NAMES


def test_ptx_lives_in_one_header() -> None:
    files = sorted([*KERNELS.glob("*.cu"), *KERNELS.glob("*.cuh")])
    inline = [path.name for path in files if re.search(r"\b(__)?asm(__)?\b", code_of(path))]
    assert set(inline) <= {"ptx.cuh"}
