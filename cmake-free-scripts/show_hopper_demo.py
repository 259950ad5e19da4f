"""Shows what demo.sh made for a chip with tensor copies: what each role does, and the counts of its products.

Usage: show_hopper_demo.py FOLDER CHIP. FOLDER holds gemm-CHIP.mlir, .ptx, .cubin and report-CHIP.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def main(folder: str, chip: str) -> int:
    """Print the demo's result; returns 1 if the three sets of counts differ."""
    out = Path(folder)
    report = json.loads((out / f"report-{chip}.json").read_text())
    (kernel,) = report["kernels"]
    (loop,) = report["loops"]
    versions = ", ".join(f"{b['buffer']}: {b['versions']} versions" for b in loop["buffers"])
    print(f"\nGEMM, 128x128x64 tiles, pipelined for {chip}")
    print(f"  {loop['stages']} stages, {versions}")
    for outline in report["outlines"]:
        print(f"\nwarps for {outline['role']}, {outline['threads']}: what an iteration does")
        inside = [e["kind"] for e in outline["entries"] if e["part"] == "kernel"]
        print("  " + ", ".join(f"{number} x {kind}" for kind, number in Counter(inside).items()))
    found = {
        "MLIR": _counts(out / f"gemm-{chip}.mlir", r"wgmma\.wait\.group\.sync\.aligned (\d+)"),
        "PTX": _counts(out / f"gemm-{chip}.ptx", r"wgmma\.wait_group\.sync\.aligned\s+(\d+)"),
        "machine code": _in_code(kernel["machine"]),
    }
    print("\nproducts that each wait leaves in flight")
    for where, counts in found.items():
        told = "not read: nvdisasm is not installed" if counts is None else _listed(counts)
        print(f"  {where:13} {told}")
    needs = kernel["resources"]
    shared = needs["static_shared_bytes"] + kernel["dynamic_shared_bytes"]
    print(
        f"\nwhat the kernel needs (ptxas)\n  {needs['registers']} registers a thread, {shared} bytes of "
        f"shared memory a block, {needs['spill_store_bytes']} bytes spilled"
    )
    (checked,) = report["checks"]
    print(
        f"\nproven: {checked['accesses']} accesses, {checked['unsafe']} unsafe, {checked['unknown']} unknown"
    )
    print("\nFiles")
    for name in (f"gemm-{chip}{end}" for end in (".mlir", ".ptx", ".cubin", ".html")):
        print(f"  {out / name}")
    kinds = {frozenset(counts) for counts in found.values() if counts is not None}
    if len(kinds) == 1:
        print(f"\nMLIR = PTX = machine code: {_listed(sorted(*kinds, reverse=True))}")
        return 0
    print("\nerror: MLIR, PTX and machine code do not wait alike")
    return 1


def _counts(file: Path, pattern: str) -> list[int]:
    return list(map(int, re.findall(pattern, file.read_text())))


def _in_code(machine: dict[str, Any] | None) -> list[int] | None:
    return None if machine is None else machine["product_waits"]


def _listed(counts: list[int]) -> str:
    return ", ".join(map(str, counts))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
