"""Shows what demo.sh made: the same counts in MLIR, PTX and machine code, and what the kernel needs.

Usage: show_demo.py FOLDER CHIP. FOLDER holds gemm.mlir, gemm.ptx, gemm.cubin and report.json.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def main(folder: str, chip: str) -> int:
    """Print the demo's result; returns 1 if the three sets of counts differ."""
    out = Path(folder)
    report = json.loads((out / "report.json").read_text())
    (kernel,) = report["kernels"]
    module = (out / "gemm.mlir").read_text()
    print(f"\nGEMM, 128x128x32 tiles, pipelined for {chip}")
    more = {
        extra["place"]: f" ({extra['asked']} asked for, {extra['why']})"
        for extra in report.get("extra_stages", ())
    }
    for loop in report["loops"]:
        print(f"  {loop['stages']} stages{more.get(loop['place'], '')}, {_buffers(loop)}")
    counts = _show("waits in MLIR", _lines(module, r"device_async_wait.*"), r"numGroups = (\d+)")
    ptx = (out / "gemm.ptx").read_text()
    in_ptx = _show(
        "waits in PTX", _lines(ptx, r"cp\.async\.wait_(?:group|all).*"), r"group\s+(\d+)"
    )
    in_code = _show_machine(kernel["machine"])
    _show_resources(kernel)
    print("\nFiles")
    for name in ("gemm.mlir", "gemm.ptx", "gemm.cubin", "report.html"):
        print(f"  {out / name}")
    if counts == in_ptx and in_code in (None, counts):
        print(f"\nMLIR = PTX = machine code: {_numbers(sorted(counts, reverse=True))}")
        return 0
    print("\nerror: MLIR, PTX and machine code do not wait alike")
    return 1


def _buffers(loop: dict[str, Any]) -> str:
    return ", ".join(f"{b['buffer']}: {b['versions']} versions" for b in loop["buffers"])


def _lines(text: str, pattern: str) -> list[tuple[int, str]]:
    """Line numbers and matching parts of the lines that match."""
    return [
        (number, " ".join(match[0].split()))
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := re.search(pattern, line))
    ]


def _show(title: str, lines: list[tuple[int, str]], count: str) -> set[int]:
    """Print the waits; returns the set of their counts."""
    print(f"\n{title}")
    for number, line in lines:
        print(f"  line {number:5}  {line}")
    return {int(found[1]) for _, line in lines if (found := re.search(count, line))}


def _show_machine(machine: dict[str, Any] | None) -> set[int] | None:
    print(
        "\nwaits in the machine code (nvdisasm); the second loop is the input's, for few iterations"
    )
    if machine is None:
        print("  not read: nvdisasm is not installed")
        return None
    print("  " + ", ".join(f"DEPBAR.LE SB0, {count:#x}" for count in machine["waits"]))
    # The pipelined loop, and the loop of the input, kept for trip counts below stages - 1.
    for loop in machine["loops"]:
        if loop["copies"]:
            print(
                f"  a loop with {loop['copies']} copies and {loop['multiplications']} tensor core "
                f"instructions: waits {_numbers(loop['waits'])}; barriers {loop['barriers']}"
            )
    return set(machine["waits"])


def _show_resources(kernel: dict[str, Any]) -> None:
    needs = kernel["resources"]
    shared = needs["static_shared_bytes"] + kernel["dynamic_shared_bytes"]
    print("\nwhat the kernel needs (ptxas)")
    print(
        f"  {needs['registers']} registers a thread, {shared} bytes of shared memory a block, "
        f"{needs['spill_store_bytes']} bytes spilled"
    )


def _numbers(values: list[int]) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
