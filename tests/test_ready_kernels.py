"""Kernels from a folder: what is sound is loaded, what is not is refused by name; manifests of strangers."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli import provenance
from accel_cli.classifier import Classifier
from accel_cli.cuda import cache as cache_module
from accel_cli.cuda import compiler
from accel_cli.cuda import manifest as manifest_module
from accel_cli.cuda import ready as module
from accel_cli.cuda.cache import Defines, KernelCache
from accel_cli.cuda.device import DeviceFacts
from accel_cli.cuda.launcher import Launcher
from accel_cli.cuda.manifest import MANIFEST, load_manifest, manifest_text
from accel_cli.cuda.ready import ReadyKernels, runs_on
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import AccelWarning, DeviceError, UsageError
from accel_cli.model.config import PlanSpec

RELU, ARGMAX = ("relu", (("THREADS", 256),)), ("argmax", (("THREADS", 128), ("MORE", 1)))


class Folder:
    """A folder of kernels; `compiled` are those that were compiled since, by a compiler that can be taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.compiled: list[str] = []
        self.compiler = True
        path.mkdir()

    def make(self, *variants: tuple[str, Defines], architectures: tuple[str, ...] = ("sm_90a",)) -> None:
        made = []
        for architecture in architectures:
            cache = KernelCache(architecture)
            made += [(*one[:1], architecture, one[1], cache.entry(*one)) for one in variants]
        for *_, entry in made:
            (self.path / entry.path.name).write_bytes(entry.path.read_bytes())
        (self.path / MANIFEST).write_text(manifest_text("13.0", KernelCache("sm_90a").headers, made))
        self.compiled.clear()

    def compile_kernel(self, name: str, flags: tuple[str, ...], sources: Path) -> tuple[bytes, str]:
        self.compiled.append(name)
        return f"cubin of {name} with {flags}".encode(), ""

    def version(self) -> str:
        if not self.compiler:
            raise DeviceError("NVRTC, the compiler of CUDA, cannot be loaded")
        return "13.0"

    def file(self, name: str) -> Path:
        (found,) = self.path.glob(f"{name}-*.cubin")
        return found

    def ready(self, architecture: str = "sm_90a") -> ReadyKernels:
        return ReadyKernels(self.path, KernelCache(architecture))

    def edit(self, change: Callable[[dict[str, Any]], Any]) -> None:
        values = json.loads((self.path / MANIFEST).read_text())
        change(values)
        (self.path / MANIFEST).write_text(json.dumps(values))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "ready")
    monkeypatch.setattr(cache_module, "compile_kernel", made.compile_kernel)
    monkeypatch.setattr(cache_module, "compiler_version", made.version)
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "made-in"))
    made.make(RELU, ARGMAX)
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    return made


def silent(folder: Folder, architecture: str = "sm_90a") -> ReadyKernels:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return folder.ready(architecture)


def test_what_is_sound_is_loaded_without_a_compiler(folder: Folder) -> None:
    folder.compiler = False
    ready = silent(folder)
    for variant in (RELU, ARGMAX):
        assert ready.cubin(*variant) == folder.file(variant[0])
    assert folder.compiled == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 0x40
    path.write_bytes(content)


def stale(folder: Folder) -> None:
    folder.edit(lambda values: values["kernels"][0].update(key="0" * 64))


DAMAGE: dict[str, tuple[Callable[[Folder], Any], str]] = {
    "a flipped bit": (lambda folder: flip(folder.file("relu")), "damaged: its sha256 is not"),
    "cut short": (lambda folder: os.truncate(folder.file("relu"), 5), "damaged"),
    "gone": (lambda folder: folder.file("relu").unlink(), "damaged"),
    "of other sources": (stale, "stale: kernels_cu/ or the compiler's options have changed"),
}


def damage(folder: Folder, way: str) -> str:
    """Spoil the kernel relu; the reason that is expected."""
    DAMAGE[way][0](folder)
    return DAMAGE[way][1]


@pytest.mark.parametrize("way", DAMAGE)
def test_what_is_not_sound_is_refused_by_name_and_compiled(folder: Folder, way: str) -> None:
    reason = damage(folder, way)
    with pytest.warns(AccelWarning) as said:
        ready = folder.ready()
    (warning,) = (str(one.message) for one in said)
    assert f"kernels in {folder.path} are refused: relu ({reason}" in warning
    assert "argmax" not in warning
    assert "accel compile" in warning
    assert folder.compiled == []  # perhaps nobody needs it
    assert ready.cubin(*RELU).read_bytes().startswith(b"cubin of relu")
    assert ready.cubin(*ARGMAX) == folder.file("argmax")
    assert folder.compiled == ["relu"]


@pytest.mark.parametrize("way", DAMAGE)
def test_without_a_compiler_that_is_an_error_of_whoever_needs_it(folder: Folder, way: str) -> None:
    reason, folder.compiler = damage(folder, way), False
    with pytest.warns(AccelWarning):
        ready = folder.ready()
    assert ready.cubin(*ARGMAX) == folder.file("argmax")
    with pytest.raises(DeviceError) as failed:
        ready.cubin(*RELU)
    words = str(failed.value)
    assert words.startswith(f"kernel relu (THREADS=256) in {folder.path} is {reason}")
    assert "It cannot be compiled here: NVRTC, the compiler of CUDA, cannot be loaded" in words
    assert "`accel compile`" in words


def test_changed_sources_make_all_stale(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sources_digest", lambda *folders: "other")
    with pytest.warns(AccelWarning, match=r"are refused: argmax, relu \(stale: kernels_cu/ or "):
        ready = folder.ready()
    ready.cubin(*RELU)
    assert folder.compiled == ["relu"]


def test_another_architecture_is_foreign(folder: Folder) -> None:
    with pytest.warns(AccelWarning, match=r"argmax, relu \(foreign: for sm_90a, and this device is sm_80\)"):
        ready = folder.ready("sm_80")
    assert ready.cubin(*RELU).name.startswith("relu-sm_80-")


def test_each_device_takes_its_own(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.make(RELU, architectures=("sm_80", "sm_90a"))
    folder.compiler = False
    for architecture, built in (("sm_80", "sm_80"), ("sm_89", "sm_80"), ("sm_90a", "sm_90a")):
        assert silent(folder, architecture).cubin(*RELU).name.startswith(f"relu-{built}-")


@pytest.mark.parametrize(
    ("built", "device", "runs"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90a", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90", "sm_90a", True),
        ("sm_100", "sm_100a", True),
        ("sm_100", "sm_103a", True),
        ("sm_100a", "sm_103a", False),
        ("sm_100", "sm_120a", False),
    ],
)
def test_which_devices_run_a_cubin(built: str, device: str, runs: bool) -> None:
    assert runs_on(built, device) == runs


def test_a_kernel_that_is_not_there(folder: Folder) -> None:
    ready = silent(folder)
    with pytest.warns(AccelWarning) as said:
        ready.cubin("relu", (("THREADS", 32),))
    assert {str(one.message) for one in said} == {
        f"{folder.path} does not have all kernels of this plan. They are compiled where they are needed, if"
        " there is a compiler; make them anew with `accel compile`"
    }
    folder.compiler = False
    with pytest.raises(DeviceError, match=r"kernel relu \(THREADS=8\) in .* is not there\. It cannot be"):
        ready.cubin("relu", (("THREADS", 8),))


def test_debuggers_want_their_own(folder: Folder) -> None:
    facts = DeviceFacts(0, "GPU", (9, 0), 132, 1 << 37, 1 << 26, 13000, 13000)
    with pytest.raises(UsageError, match=r"--kernels .*: kernels for debuggers \(--kernel-debug line\)"):
        Launcher(facts, debug="line", kernels=str(folder.path))


def test_the_plan_carries_the_folder_on_cuda_and_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = PlanSpec().overridden(kernels="ready")
    plan = make_plan(networks.RAGGED, wanted, "cuda:0")
    assert str(plan).endswith(" kernels=ready")
    assert plan.reasons["kernels"] == "asked for"
    assert {each.kernels for each in available_plans(networks.RAGGED, wanted, "cuda:0")} == {"ready"}
    assert make_plan(networks.RAGGED, wanted, "cpu") == make_plan(networks.RAGGED, PlanSpec(), "cpu")

    made: list[str] = []

    class Noting(fake_cupy.Launcher):
        def __init__(self, device: Any, *, debug: str = "", kernels: str = "") -> None:
            made.append(kernels)
            super().__init__(device)

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", Noting)
    spec = networks.RAGGED
    CudaEngine(spec, networks.weights_of(spec), networks.plan("cuda:0", kernels="ready"))
    assert made == ["ready"]


def test_from_python(tiny_path: Path) -> None:
    with Classifier.load(tiny_path, device="cpu", kernels=Path("ready")) as classifier:
        assert classifier.config.plan.kernels == "ready"
        assert classifier.plan.kernels == ""  # which a CPU has no use for


def test_figures_measured_without_a_compiler_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise DeviceError("NVRTC, the compiler of CUDA, cannot be loaded")

    module = fake_cupy.module()
    module.__version__ = "14.2.0"
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(compiler, "compiler_version", absent)
    gpu = DeviceFacts(0, "GPU", (9, 0), 132, 1 << 37, 1 << 26, 13000, 13000)
    assert provenance._versions(gpu, ())["compiler"] is None
    monkeypatch.setattr(compiler, "compiler_version", lambda: "13.0")
    assert provenance._versions(gpu, ())["compiler"] == "NVRTC 13.0"


# Manifests of strangers


def test_no_file_is_named_by_the_manifest(folder: Folder) -> None:
    outside = folder.path.parent / "outside.cubin"
    outside.write_bytes(folder.file("relu").read_bytes())
    for word in ("../outside", "/etc/passwd", "relu/../../outside", "relu\0", "..", ""):
        folder.edit(lambda values, word=word: values["kernels"][0].update(kernel=word))
        with pytest.raises(DeviceError, match=r"manifest.json is no manifest .*kernel"):
            load_manifest(folder.path)


def test_what_a_link_leads_to_is_checked_like_a_file(folder: Folder) -> None:
    path = folder.file("relu")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.warns(AccelWarning, match=r"relu \(damaged"):
        folder.ready()


def test_a_file_too_large_for_a_cubin_is_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 10)
    with pytest.warns(AccelWarning, match=r"argmax, relu \(damaged"):
        folder.ready()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (b"[]", "it is no JSON object"),
        (b"[" * 100_000, "recursion|nested"),
        (b"1" * 10_000, "digits"),
        (b'{"format": 2}', "its format is '2', and this accel reads 1"),
        (b'{"format": true}', "its format is 'True'"),
        (b'{"format": 1}', "kernels: expected a list"),
        (b'{"format": 1, "kernels": [1]}', r"kernels\[0\]: expected an object"),
        (b'{"format": 1, "kernels": [{}]}', r"kernels\[0\].kernel: 'None' is none"),
        (b'{"format": 1, "kernels": []}', "compiler: 'None' is none"),
    ],
)
def test_what_is_no_manifest(folder: Folder, content: bytes, reason: str) -> None:
    (folder.path / MANIFEST).write_bytes(content)
    with pytest.raises(
        DeviceError, match=f"(?s)manifest.json is no manifest of compiled kernels.*({reason})"
    ):
        folder.ready()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel", 7),
        ("architecture", "sm_90a; rm"),
        ("architecture", "sm_9"),
        ("key", "0" * 63),
        ("sha256", "G" * 64),
        ("sha256", ["0" * 64]),
        ("defines", []),
        ("defines", {"THREADS": "256"}),
        ("defines", {"THREADS": True}),
        ("defines", {"THREADS": 1.5}),
        ("defines", {"THREADS": 1 << 63}),
        ("defines", {"A=1 -I/": 1}),
        ("defines", {"\ud800": 1}),
    ],
)
def test_what_is_no_entry(folder: Folder, key: str, value: Any) -> None:
    folder.edit(lambda values: values["kernels"][1].update({key: value}))
    with pytest.raises(DeviceError, match=rf"\(kernels\[1\]\.{key}: ") as failed:
        folder.ready()
    str(failed.value).encode()


def test_a_huge_manifest_is_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "_LARGEST", 1 << 20)
    (folder.path / MANIFEST).write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(DeviceError, match="it is larger than 1 MiB"):
        folder.ready()


@pytest.mark.parametrize("kind", ["nothing", "a folder", "a pipe", "no folder"])
def test_a_folder_without_a_manifest(folder: Folder, kind: str) -> None:
    path = folder.path / MANIFEST
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    place = folder.path / "other" if kind == "no folder" else folder.path
    with pytest.raises(DeviceError, match=r"holds no compiled kernels .*make them with `accel compile"):
        ReadyKernels(place, KernelCache("sm_90a"))


def refused(folder: Path) -> str | None:
    try:
        load_manifest(folder)
    except DeviceError as error:
        return str(error)
    return None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TOP = ["format", "compiler", "headers", "kernels"]
ENTRY = ["kernel", "architecture", "defines", "key", "sha256"]


@settings(max_examples=40)
@given(key=st.sampled_from(TOP + ENTRY), value=VALUES)
def test_any_value_is_taken_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-manifest"
    folder.mkdir(exist_ok=True)
    digest = "0" * 64
    one = {"kernel": "relu", "architecture": "sm_90a", "defines": {}, "key": digest, "sha256": digest}
    top: dict[str, Any] = {"format": 1, "compiler": "13.0", "headers": digest, "kernels": [one]}
    (top if key in TOP else one)[key] = value
    (folder / MANIFEST).write_text(json.dumps(top))
    if (refusal := refused(folder)) is not None:
        assert str(folder / MANIFEST) in refusal
        refusal.encode()
