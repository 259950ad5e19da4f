"""Instructions in the GEMM's loop at sm_80 by how the slot index is made.

    python bench/slot_index.py [STAGES …]

carried: the pipeliner's own form, slots as loop-carried values. remainder: the same module
with the slots computed from the induction variable as (k / 32) remui V. Both are assembled,
and the instructions of the pipelined loop are counted in the cubin.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

GENERATOR = Path(__file__).parent.parent / "examples" / "generate_gemm.py"
TILE_K = 32


def pipelined_gemm(stages: int) -> str:
    """The example GEMM, pipelined, without the copy of its loop for short trips."""
    text = subprocess.run(
        [sys.executable, str(GENERATOR), f"--stages={stages}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    text = text.replace(
        "async_pipe.num_stages", 'async_pipe.short_trip = "assume", async_pipe.num_stages'
    )
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find("async-pipe")
        found.run(module.operation, found.options(), Session())
        return str(module)


def with_remainders(text: str, stages: int) -> str:
    """Replace the carried slots inside the kernel loop by remainders of the iteration."""
    start = re.search(r"scf\.for (%\w+) = %c0 to \S+ step %c32 iter_args\(.*\) -> \(.*\) \{", text)
    assert start is not None
    head, rest = text[: start.end()], text[start.end() :]
    loop, tail = rest[: rest.index("scf.yield")], rest[rest.index("scf.yield") :]
    for pattern, ahead in (
        (r"nvgpu\.ldmatrix %\w+\[(%arg\d+),", 0),
        (r"device_async_copy %\w+\[[^]]*\], %\w+\[(%arg\d+),", stages - 1),
    ):
        carried = re.search(pattern, loop)
        assert carried is not None
        name = f"%remainder_{ahead}"
        loop = re.sub(re.escape(carried.group(1)) + r"(?=,)", name, loop)
        loop = (
            f"\n%step_{ahead} = arith.constant {TILE_K} : index"
            f"\n%versions_{ahead} = arith.constant {stages} : index"
            f"\n%ahead_{ahead} = arith.constant {ahead} : index"
            f"\n%iteration_{ahead} = arith.divui {start.group(1)}, %step_{ahead} : index"
            f"\n%sum_{ahead} = arith.addi %iteration_{ahead}, %ahead_{ahead} : index"
            f"\n{name} = arith.remui %sum_{ahead}, %versions_{ahead} : index\n{loop}"
        )
    return head + loop + tail


def loop_instructions(text: str) -> int:
    """Instructions of the pipelined loop in the cubin."""
    with new_context():
        made = lower(ir.Module.parse(text), target=Target.parse("nvvm:sm_80"), emit="cubin")
    machine = made.kernels[0].machine
    assert machine is not None
    (loop,) = machine.pipelined_loops
    return loop.instructions


def main(stages: list[int]) -> None:
    print("versions  carried  remainder")
    for count in stages:
        carried = pipelined_gemm(count)
        print(
            f"{count:8}  {loop_instructions(carried):7}  "
            f"{loop_instructions(with_remainders(carried, count)):9}"
        )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [2, 3, 4, 5, 6])
