"""Runs PTX on the CPU, without a module of the package: the judge of what `lower` emits.

    module = parse(ptx)
    launch(module, "kernel", [array, array, 0, 16, 1], block=(128, 1, 1), completion="late")

All threads of a block run, blocks one after the other. An asynchronous copy moves its bytes
when a wait retires it ("late"), at once ("eager"), or at random in between; either way its
destination is poison until that wait, and its source may not be overwritten. Alignment and
bounds of each access are checked against its allocation, and conflicting accesses of two threads
with no barrier between them are races. An instruction that is not known is an error.
"""

from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.launch import COMPLETIONS, Array, At, launch, memref
from helpers.ptx_machine.parser import parse
from helpers.ptx_machine.program import Program
from helpers.ptx_machine.syntax import Module

__all__ = [
    "COMPLETIONS", "Array", "At", "Module", "Program", "PtxFault", "launch", "memref", "parse",
]  # fmt: skip
