"""What a cubin's machine code multiplies matrices with, as NVIDIA's disassembler shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from accel_cli.errors import DeviceError

INSTALL = "install `nvidia-cuda-cuobjdump` and `nvidia-cuda-nvdisasm`, or have CUDA's own `cuobjdump` in PATH"
# Of one warp, and of a warpgroup, which is what sm_90a's tensor cores need to run at full speed.
_INSTRUCTION = re.compile(r"\b(HMMA|HGMMA)\.")


def disassembler() -> Path | None:
    """cuobjdump: that of the pip packages, else the one in PATH."""
    for entry in map(Path, sys.path):
        for path in sorted(entry.glob("nvidia/cu1?/bin/cuobjdump")):
            if path.with_name("nvdisasm").exists():  # without which it can do nothing
                return path
    found = shutil.which("cuobjdump")
    return Path(found) if found else None


def matrix_instructions(tool: Path, cubin: bytes) -> dict[str, int]:
    """How many instructions of each kind a cubin has for tensor cores, or DeviceError."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [tool, "--dump-sass", file.name], capture_output=True, encoding="utf-8", check=False
        )
    if done.returncode:
        raise DeviceError(f"{tool} fails: {done.stderr.strip()}; {INSTALL}")
    return dict(Counter(_INSTRUCTION.findall(done.stdout)))
