"""Loops by roles on the machine: pipelined, looked into, and run in each order of the warps."""

from __future__ import annotations

from typing import Any

from helpers.machine_programs import parse
from helpers.tensor_loops import TensorLoop
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import MachineError

ORDERS = [
    (completion, schedule)
    for completion in machine.COMPLETIONS
    for schedule in ("lockstep", "backward", "random")
]


def pipelined(loop: TensorLoop, text: str = "", **options: Any) -> tuple[Any, Any]:
    """A loop, or another text of it, pipelined; and the report."""
    module = parse(text or loop.text())
    report = pipeline(module, check="none", **options)
    return module, report


def ops(module: Any, name: str) -> list[Any]:
    """All ops of a name."""
    return [op for op in walk(module.operation) if op.name == name]


def wrong(loop: TensorLoop, module: Any, orders: list[tuple[str, str]] | None = None) -> list[str]:
    """What the machine says about it in some order: another result, races, a deadlock."""
    found = []
    for completion, schedule in orders or ORDERS:
        try:
            found.append(loop.right(module, completion, schedule))
        except MachineError as error:
            found.append(str(error))
    return [why for why in found if why]
