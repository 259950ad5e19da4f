"""Shows what demo.sh made for an AMD chip: each wait, and its instructions in the assembly.

Usage: show_amd_demo.py FOLDER CHIP. FOLDER holds gemm-CHIP.s and report-CHIP.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: str, chip: str) -> int:
    """Print the demo's result; returns 1 if an instruction waits for more than the count."""
    out = Path(folder)
    report = json.loads((out / f"report-{chip}.json").read_text())
    (kernel,) = report["kernels"]
    print(f"\nGEMM, 128x128x32 tiles, pipelined for {chip}")
    for loop in report["loops"]:
        versions = ", ".join(f"{b['buffer']}: {b['versions']} versions" for b in loop["buffers"])
        print(f"  {loop['stages']} stages, {versions}")
    counter = kernel["waits"][0]["counter"]
    print("\nwaits, in textual order, and what the back end made of them")
    for entry in report["instructions"]:
        print(f"  {_wait(entry, counter)}")
    print("\nwhat the kernel needs")
    print(
        f"  {kernel['vector_registers']} vector registers a lane, {kernel['workgroup_bytes']} bytes "
        f"of LDS a block, {kernel['vector_spills']} registers spilled"
    )
    print(f"\nFiles\n  {out / f'gemm-{chip}.mlir'}\n  {out / f'gemm-{chip}.s'}")
    if any(entry["verdict"] == "stricter" for entry in report["instructions"]):
        print("\nerror: an instruction waits for more than the count asks for")
        return 1
    return 0


def _wait(entry: dict[str, Any], counter: str) -> str:
    """For instance "1 group of 4 copies stays in flight: vmcnt(4) in a loop"."""
    count, copies = entry["wait"]["count"], entry["wait"]["copies"]
    groups = f"{count} group{'s' if count != 1 else ''} of {copies} copies may stay in flight"
    if not entry["left"]:
        return f"{groups}: {entry['reason']}"
    found = ", ".join(f"{counter}({left})" for left in entry["left"])
    return f"{groups}: {found}{' in a loop' if entry['left_in_loops'] else ''}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
