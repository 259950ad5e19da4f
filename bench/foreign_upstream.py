"""Copies the kernels of MLIR's own integration tests, which run on GPUs, for `bench/foreign.py`.

    python bench/foreign_upstream.py LLVM/mlir/test FOLDER

LLVM is a source tree of LLVM. Tests whose kernel only a transform script makes, and those without a kernel that
touches memory, are left out. Each file is one of Integration/GPU/CUDA or ROCM as it is.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

KERNEL = re.compile(r"\bgpu\.(launch|func)\b")
ACCESS = re.compile(r"\b(memref|vector|affine)\.(load|store|transfer)|\bmma\b|tma|subgroup_mma")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    root = options.tests / "Integration" / "GPU"
    for path in sorted((*root.glob("CUDA/**/*.mlir"), *root.glob("ROCM/**/*.mlir"))):
        text = path.read_text()
        if KERNEL.search(text) and ACCESS.search(text) and "transform.named_sequence" not in text:
            name = ".".join(path.relative_to(root).parts)
            (options.folder / name).write_text(text)


if __name__ == "__main__":
    main()
