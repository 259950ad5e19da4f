"""What ptxas says about products of warpgroups, which its exit status does not tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from mlir_async_pipe.lowering.nvvm.ptxas import require_tool


def remarks_on_products(ptx: str, folder: Path) -> list[str]:
    """C7510: products are serialised, and why; C7517: a wait was added to make the code right."""
    (folder / "kernel.ptx").write_text(ptx)
    command = [require_tool("ptxas"), "-v", "-arch=sm_90a", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    said = done.stdout + done.stderr
    assert "Compiling entry function" in said
    return re.findall(r"\(C75\d\d\)[^\n]*", said)
