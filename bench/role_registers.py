"""What a wave of a GEMM needs in registers if it only copies, only multiplies, or does both.

    python bench/role_registers.py [--chip gfx1250] [--tile 128 128 32] [--stages 3]

Each role is a kernel of its own, made of the pipelined one: the producer loses products and stores, the consumer the
copies in the loop (those before it stay, since LDS that nobody writes has no values). Slots, waits and barriers are those
of the whole kernel. Needs AMD's back end (`pip install '.[amd]'`); nothing is run.
"""

from __future__ import annotations

import argparse
from typing import Any

from code_kernels import Gemm

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.bindings.raw_ops import before, create, erase, walk
from mlir_async_pipe.chips.occupancy import block_limits
from mlir_async_pipe.chips.target import Target

PRODUCTS = ("amdgpu.wmma", "amdgpu.mfma")
COPY, GROUP = "nvgpu.device_async_copy", "nvgpu.device_async_create_group"


def keep(module: Any, role: str) -> None:
    """Take out of a pipelined module what a role does not do."""
    ops = list(walk(module.operation))
    if role == "producer":
        for op in (op for op in ops if op.name in PRODUCTS):
            op.results[0].replace_all_uses_with(op.operands[2])
        erase(op for op in ops if op.name in (*PRODUCTS, "vector.store"))
    if role == "consumer":
        inside = [op for loop in ops if loop.name == "scf.for" for op in walk(loop)]
        for op in (op for op in inside if op.name == GROUP):
            empty = {"async_pipe.empty": ir.UnitAttr.get()}
            kind = op.results[0].type
            group = create(GROUP, (), (kind,), empty, ip=before(op), loc=op.location)
            op.results[0].replace_all_uses_with(group.results[0])
        erase(op for op in inside if op.name in (GROUP, COPY))


def main() -> None:
    """The table, a row a role."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", default="gfx1250")
    parser.add_argument("--tile", type=int, nargs=3, default=(128, 128, 32))
    parser.add_argument("--stages", type=int, default=3)
    given = parser.parse_args()
    target = Target.parse(f"rocdl:{given.chip}")
    m, n, k = given.tile
    gemm = Gemm(tile_m=m, tile_n=n, tile_k=k, stages=given.stages, chip=given.chip)
    print(
        "| wave | vector registers | copies in the loop | products | blocks by registers, by LDS |"
    )
    for role in ("all", "producer", "consumer"):
        with new_context():
            module = ir.Module.parse(gemm.module())
            mlir_async_pipe.pipeline(module, target=target)
            keep(module, role)
            passmanager.PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
            code = mlir_async_pipe.lower(module, target=target, emit="isa")
        (kernel,) = code.kernels
        products = sum(code.text.count(name) for name in ("\tv_wmma", "\tv_mfma"))
        limits = block_limits(
            target.chip, gemm.threads, kernel.vector_registers, kernel.workgroup_bytes
        )
        blocks = f"{limits['registers']}, {limits['workgroup memory']}"
        print(
            f"| {role} | {kernel.vector_registers} | {kernel.copies_in_loops} | {products} | {blocks} |"
        )


if __name__ == "__main__":
    main()
