"""Loops whose copies are in several stages, so that they share the one FIFO of cp.async."""

from __future__ import annotations

LENGTH = 32
NEAR = "memref<1xi32, #gpu.address_space<workgroup>>"
FAR = f"memref<{LENGTH}xi32>"


def program(producers: int, stage: list[int], order: list[int], options: str) -> str:
    """D[i] = A0[i] + … through a tile each: `producers` copies, as many loads, one store."""
    names = [f"A{n}" for n in range(producers)]
    arguments = ", ".join(f"%{name} : {FAR} {{llvm.noalias}}" for name in [*names, "D"])
    lines = [
        f"func.func @f(%n : index, {arguments}) {{",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%zero = arith.constant 0 : i32",
        *(f"%tile{n} = memref.alloc() : {NEAR}" for n in range(producers)),
        "scf.for %i = %c0 to %n step %c1 {",
    ]
    for n in range(producers):
        lines.append(
            f"%copy{n} = nvgpu.device_async_copy %A{n}[%i], %tile{n}[%c0], 1 : {FAR} to {NEAR}"
        )
    tokens = ", ".join(f"%copy{n}" for n in range(producers))
    lines += [f"%group = nvgpu.device_async_create_group {tokens}"]
    lines += ["nvgpu.device_async_wait %group"]
    for n in range(producers):
        before = f"%sum{n - 1}" if n else "%zero"
        lines.append(f"%x{n} = memref.load %tile{n}[%c0] : {NEAR}")
        lines.append(f"%sum{n} = arith.addi {before}, %x{n} : i32")
    lines += [
        f"memref.store %sum{producers - 1}, %D[%i] : {FAR}",
        f"}} {{async_pipe.stage = {stage}, async_pipe.order = {order}{options}}}",
        "return",
        "}",
    ]
    return "\n".join(lines)
