"""The figures of one kernel's code: ours through the package, and those of code that others made."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from banks import passes_of
from code_kernels import Kernel
from iterations import Iteration, iteration, main_loop

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm import cubin
from mlir_async_pipe.lowering.nvvm.ptxas import assemble
from mlir_async_pipe.lowering.rocdl import isa


@dataclass(frozen=True)
class Figures:
    """An iteration of the main loop, what a thread and a block need, and for each kind of access
    to workgroup memory in the loop the passes that it takes, 1 without bank conflicts; `stores` and `loads` are all that
    there are of global memory. Of kernels as users write them also the `blocks` that a multiprocessor holds, and the processor milliseconds of the `proof`."""

    iteration: Iteration
    registers: int
    spills: int
    shared: int
    body: tuple[str, ...]
    passes: dict[str, float]
    stores: str = ""
    loads: int = 0
    blocks: int | None = None
    proof: int | None = None

    def stored(self) -> dict[str, Any]:
        """Numbers by name, for JSON."""
        counts = self.iteration.classes
        return {
            "all": self.iteration.all,
            "per product": round(self.iteration.all / (self.iteration.products or 1), 2),
            "run": self.iteration.run,
            "registers": self.registers,
            "spills": self.spills,
            "shared": self.shared,
            "wait": list(self.iteration.waits),
            **({"stores": self.stores} if self.stores else {}),
            **({"loads": self.loads} if self.loads else {}),
            **({} if self.blocks is None else {"blocks": self.blocks}),
            **({} if self.proof is None else {"proof ms": self.proof}),
            **{f"passes of {name}": number for name, number in self.passes.items()},
            **dict(sorted(counts.items())),
        }


def ours(kernel: Kernel) -> Figures:
    """Pipeline and lower a module with one kernel, and read its main loop."""
    target = Target.parse(kernel.target)
    with new_context():
        module = ir.Module.parse(kernel.text())
        mlir_async_pipe.pipeline(module, target=target, **dict(kernel.options))
        passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        passes = passes_of(module, target)
        emit = "cubin" if target.lowering == "nvvm" else "isa"
        lowered = lower(module, target=target, emit=emit)
    (found,) = lowered.kernels
    if target.lowering == "rocdl":
        return _of_isa(lowered.text, kernel, None, passes)
    assembly = cubin.disassemble(lowered.binary)
    shared = found.resources.static_shared_bytes + found.dynamic_shared_bytes
    return _of_sass(assembly, found.name, kernel, found.resources, shared, passes)


def of_user(kernel: Kernel) -> Figures:
    """The same of a kernel as a user writes it, with its blocks and its proof."""
    target = Target.parse(kernel.target)
    found = ours(kernel)
    with new_context():
        module = ir.Module.parse(kernel.text())
        mlir_async_pipe.pipeline(module, target=target)
        began = time.process_time()
        mlir_async_pipe.check(module, target=target)
        proof = 1000 * (time.process_time() - began)
    return replace(_with_blocks(found, kernel), proof=max(1, round(proof)))


def _with_blocks(found: Figures, kernel: Kernel) -> Figures:
    chip = Target.parse(kernel.target).chip
    blocks = resident_blocks(chip, kernel.threads, found.registers, found.shared)
    return replace(found, blocks=blocks)


def of_triton(kernels: list[Kernel], python: Path) -> dict[str, Figures]:
    """Triton's code for those kernels that have a peer, compiled by its own environment."""
    asked = [kernel for kernel in kernels if kernel.triton is not None]
    script = Path(__file__).with_name("triton_peers.py")
    request = json.dumps([kernel.triton for kernel in asked])
    done = subprocess.run(
        [python, script], input=request, capture_output=True, text=True, check=True
    )
    answers = json.loads(done.stdout)
    return {
        f"{kernel.target} {kernel.name}": _of_answer(kernel, answer)
        for kernel, answer in zip(asked, answers, strict=True)
    }


def _of_answer(kernel: Kernel, answer: dict[str, Any]) -> Figures:
    target = Target.parse(kernel.target)
    if target.lowering == "rocdl":
        return _of_isa(answer["text"], kernel, answer["shared"], {})
    made = assemble(answer["text"], target.chip)
    (name,) = made.resources
    assembly = cubin.disassemble(made.cubin)
    found = _of_sass(assembly, name, kernel, made.resources[name], answer["shared"], {})
    return _with_blocks(found, kernel) if kernel.threads else found


def _of_sass(
    assembly: str, name: str, kernel: Kernel, used: Any, shared: int, passes: dict[str, float]
) -> Figures:
    body = main_loop(cubin.loop_bodies(assembly)[name], "nvvm")
    counted = iteration(body, "nvvm", kernel.multiplications)
    found = Counter(re.findall(r"\bSTG(?:\.E)?(\.\w+)?", assembly))
    stores = ", ".join(f"{number} STG{width}" for width, number in sorted(found.items()))
    loads = len(re.findall(r"\bLDG\b", assembly))
    spills = used.spill_store_bytes
    return Figures(counted, used.registers, spills, shared, body, passes, stores, loads)


def _of_isa(text: str, kernel: Kernel, shared: int | None, passes: dict[str, float]) -> Figures:
    (found,) = (one for one in isa.read(text) if one.vector_registers is not None)
    body = main_loop(isa.loop_bodies(text)[found.name], "rocdl")
    counted = iteration(body, "rocdl", kernel.multiplications)
    spills = (found.vector_spills or 0) + (found.scalar_spills or 0)
    registers = found.vector_registers or 0
    shared = found.workgroup_bytes or 0 if shared is None else shared
    return Figures(counted, registers, spills, shared, body, passes)
