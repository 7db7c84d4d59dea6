"""The cache of built programs, and what g++ is told of a kernel."""

from pathlib import Path

import pytest

from accel_cli.kernels.base import Array, Kernel, Launch
from host_cuda import build

KERNEL = Kernel("one", (Array("y", "int32", written=True),))
LAUNCH = Launch(KERNEL, (("VALUE", 1),), (1, 1, 1), (1, 1, 1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel with a header, and a count of the compilations it causes."""
    (tmp_path / "one.cu").write_text(
        '#include "one.cuh"\nextern "C" __global__ void one(int* y) { *y = value(); }\n'
    )
    (tmp_path / "one.cuh").write_text("__device__ int value() { return VALUE; }\n")
    cache = tmp_path / "cache"
    cache.mkdir()
    for part in (build._headers(), build._runtime()):
        (cache / part.name).symlink_to(part)
    monkeypatch.setattr(build, "CACHE", cache)
    return tmp_path


def test_a_program_is_built_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.program(folder, LAUNCH)
    monkeypatch.setattr(build, "_run", lambda *_: pytest.fail("compiled again"))
    assert build.program(folder, LAUNCH) == first


def test_a_header_and_a_define_make_another_program(folder: Path) -> None:
    programs = {build.program(folder, LAUNCH)}
    programs.add(build.program(folder, Launch(KERNEL, (("VALUE", 2),), (1, 1, 1), (1, 1, 1))))
    (folder / "one.cuh").write_text("__device__ int value() { return VALUE + 1; }\n")
    programs.add(build.program(folder, LAUNCH))
    assert len(programs) == 3
    assert all(path.exists() for path in programs)


def test_what_is_no_kernel_does_not_build(folder: Path) -> None:
    (folder / "one.cu").write_text('extern "C" __global__ void one(int* y) { *y = missing(y); }\n')
    with pytest.raises(build.BuildError, match=r"one.cu:1:\d+: error: .missing. was not declared"):
        build.program(folder, LAUNCH)


def test_shared_memory_bounds_and_clusters_are_translated() -> None:
    text = build.translate(
        "void __cluster_dims__(B) __launch_bounds__((A + 1) * 2, 3)\none() { extern __shared__ float m[]; }",
        "one",
    )
    assert 'extern  float m[] __asm__("host_cuda_dynamic_shared");' in text
    assert "host_cuda_bounds[] = {(A + 1) * 2, 3};" in text
    assert "host_cuda_cluster{B};" in text
    assert "host_cuda_cluster{};" in build.translate("void one() {}", "one")
