"""Weights from elsewhere: the school's params.bin, PyTorch's state dicts, plain safetensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networks
import numpy as np
import pytest
from safetensors.numpy import save_file

from accel_cli.errors import WeightsError
from accel_cli.model.convert import read_foreign
from accel_cli.model.generate import generate
from accel_cli.model.weights import save_tensors, shapes

SPEC = replace(networks.SCHOOL, embedding=8, filters=4, expert_hidden=6, fully_connected=(5, 3, 2))
# The course of 2024: no experts, so one of the features' size in our terms.
SPEC_2024 = replace(SPEC, experts=1, expert_hidden=SPEC.features, fully_connected=(7, 5, 3, 2))
SEED = 2025


def order_of_2025() -> list[str]:
    names = [f"convolution.{k}" for k in (3, 5, 7, 9)] + [f"experts.{e}" for e in range(4)] + ["gate"]
    names += [f"fc.{i}" for i in range(3)]
    return [f"{name}.{part}" for name in names for part in ("weight", "bias")]


def write(path: Path, tensors: Any, order: list[str]) -> Path:
    path.write_bytes(b"".join(tensors[name].astype("<f4").tobytes() for name in order))
    return path


def refusal(path: Path, spec: Any = SPEC) -> str:
    with pytest.raises(WeightsError) as caught:
        read_foreign(path, spec, SEED)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def check(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_params_of_2025(tmp_path: Path) -> None:
    tensors = generate(SPEC, 5)
    path = write(tmp_path / "params.bin", tensors, order_of_2025())
    embedding = generate(SPEC, SEED)["embedding.weight"]
    check(read_foreign(path, SPEC, SEED), {**tensors, "embedding.weight": embedding})
    other = read_foreign(path, SPEC, SEED + 1)["embedding.weight"]
    assert not np.array_equal(other, embedding)


def test_params_of_2024(tmp_path: Path) -> None:
    tensors = generate(SPEC_2024, 5)
    names = ["embedding"] + [f"convolution.{k}" for k in (3, 5, 7, 9)] + [f"fc.{i}" for i in range(4)]
    order = [
        f"{name}.{part}"
        for name in names
        for part in ("weight", "bias")
        if (name, part) != ("embedding", "bias")
    ]
    found = read_foreign(write(tmp_path / "params.bin", tensors, order), SPEC_2024, SEED)
    size = SPEC_2024.features
    nothing = {
        "gate.weight": np.zeros((1, size)),
        "gate.bias": np.zeros(1),
        "experts.0.weight": np.eye(size),
        "experts.0.bias": np.zeros(size),
    }
    check(found, {**tensors, **nothing})
    assert found.keys() == shapes(SPEC_2024).keys()


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_params_of_another_size(tmp_path: Path, change: int) -> None:
    path = write(tmp_path / "params.bin", generate(SPEC, 5), order_of_2025())
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    message = refusal(path)
    assert f"has {len(content) + change} bytes" in message
    assert f"has {len(content)}." in message
    assert "--config" in message
    assert "school-2024" in message


def test_params_of_the_other_year(tmp_path: Path) -> None:
    path = write(tmp_path / "params.bin", generate(SPEC, 5), order_of_2025())
    assert "bytes; a params.bin of this network has" in refusal(path, SPEC_2024)


def test_params_with_nan(tmp_path: Path) -> None:
    tensors = {name: np.array(tensor) for name, tensor in generate(SPEC, 5).items()}
    tensors["fc.1.bias"][2] = np.nan
    path = write(tmp_path / "params.bin", tensors, order_of_2025())
    assert "fc.1.bias holds NaN or infinity" in refusal(path)


def test_no_file(tmp_path: Path) -> None:
    assert "to convert" in refusal(tmp_path / "params.bin")
    (tmp_path / "folder.bin").mkdir()
    assert "to convert" in refusal(tmp_path / "folder.bin")


@pytest.mark.parametrize("ours", [True, False])
def test_safetensors_with_and_without_our_metadata(tmp_path: Path, ours: bool) -> None:
    tensors, path = dict(generate(SPEC, 5)), tmp_path / "w.safetensors"
    save_tensors(path, tensors, {}) if ours else save_file(tensors, path)
    check(read_foreign(path, SPEC, SEED), tensors)


def test_an_unexpected_name_gets_the_nearest(tmp_path: Path) -> None:
    tensors, path = dict(generate(SPEC, 5)), tmp_path / "w.safetensors"
    tensors["module.fc.1.weight"] = tensors.pop("fc.1.weight")
    save_file(tensors, path)
    assert "unexpected tensor module.fc.1.weight; did you mean fc.1.weight?" in refusal(path)


def test_an_unexpected_name_unlike_any(tmp_path: Path) -> None:
    save_file({"zzz": np.zeros(3, np.float32)}, tmp_path / "w.safetensors")
    assert "unexpected tensor zzz; standard names: embedding.weight, " in refusal(tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gate.bias": None}, "missing gate.bias"),
        ({"gate.bias": np.zeros(5, np.float32)}, "gate.bias has shape [5], expected [4]"),
        ({"gate.bias": np.zeros(4, np.int64)}, "gate.bias is int64"),
    ],
)
def test_what_does_not_fit_names_the_source(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    tensors = {**generate(SPEC, 5), **change}
    path = tmp_path / "w.safetensors"
    save_file({name: value for name, value in tensors.items() if value is not None}, path)
    assert words in refusal(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(100)])
def test_what_is_nothing_we_know(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.ckpt"
    path.write_bytes(content)
    message = refusal(path)
    assert "no safetensors file" in message
    assert ".bin" in message
    assert ".pth" in message


def test_pytorch_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    path = tmp_path / "w.pt"
    path.write_bytes(b"x")
    message = refusal(path)
    assert "PyTorch, which is not installed" in message
    assert "save_file" in message


@pytest.mark.extras
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_a_state_dict(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    tensors = generate(SPEC, 5)
    state = {
        name: torch.nn.Parameter(torch.tensor(value).to(getattr(torch, kind)))
        for name, value in tensors.items()
    }
    torch.save(state, tmp_path / "w.pt")
    found = read_foreign(tmp_path / "w.pt", SPEC, SEED)
    for name, value in tensors.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-2 if kind == "bfloat16" else 0)
        assert found[name].dtype == np.float32


@pytest.mark.extras
def test_what_is_no_state_dict(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "w.pth"
    path.write_bytes(b"nothing of PyTorch")
    assert "is no PyTorch state dict" in refusal(path)
    for value in ({"state_dict": {"a": torch.zeros(3)}}, [torch.zeros(3)], torch.zeros(3), {"a": 3}):
        torch.save(value, path)
        assert "is no state dict of tensors; save model.state_dict(), not the model" in refusal(path)
    torch.save(torch.nn.Linear(2, 3), path)  # a pickled class, which is never unpickled
    assert "is no PyTorch state dict" in refusal(path)
    torch.save({"fc.0.wieght": torch.zeros(3)}, path)
    assert "did you mean fc.0.weight?" in refusal(path)
