"""func calls and branches between blocks (cf, llvm)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.dialects.intrinsics import call_intrinsic
from mlir_async_pipe.machine.dialects.scf import packer
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.lane_values import NONE, split
from mlir_async_pipe.machine.registry import Execute, branch, semantics
from mlir_async_pipe.vocabulary.memory_ops import HINTS

Array = np.ndarray


@semantics("func.call", "llvm.call")
def call(site: Site) -> Execute:
    """A call by name: a frame of its own, and marks of its own for function-scope queues. What stands
    for an intrinsic is that."""
    if site.row is not None:
        return call_intrinsic(site)
    if not site.has("callee"):
        raise site.unsupported("calls through pointers")
    name = ir.FlatSymbolRefAttr(site.op.attributes["callee"]).value
    function = site.decoder.function(name, site.op)
    pack = packer(site)
    return lambda unit, *arguments: pack(unit.call(function, arguments))


def _targets(site: Site) -> list[int]:
    return [site.decoder.block_number(block) for block in site.op.successors]


@branch("cf.br", "llvm.br")
def jump(site: Site) -> Execute:
    """All lanes go to one block."""
    (target,) = _targets(site)
    return lambda unit, *values: [(target, unit.mask, values)]


@branch("cf.cond_br", "llvm.cond_br")
def conditional_jump(site: Site) -> Execute:
    """Lanes part by a condition."""
    yes_target, no_target = _targets(site)
    _, yes_count, _ = site.segments()

    def execute(unit: Unit, condition: Array, *values: Any) -> list[tuple[int, Any, Any]]:
        yes, no = split(unit.mask, condition)
        return [(yes_target, yes, values[:yes_count]), (no_target, no, values[yes_count:])]

    return execute


@branch("cf.switch", "llvm.switch")
def switch(site: Site) -> Execute:
    """Lanes part by case values; the default comes first among the successors."""
    default, *targets = _targets(site)
    cases = _case_values(site)
    _flag, default_count, *_ = site.segments()
    counts = site.integers("case_operand_segments")

    def execute(unit: Unit, value: Array, *values: Any) -> list[tuple[int, Any, Any]]:
        rest: Any = unit.mask
        ways = []
        start = default_count
        for case, target, count in zip(cases, targets, counts, strict=True):
            if rest is not NONE:
                hit, rest = split(rest, value == case)
                ways.append((target, hit, values[start : start + count]))
            start += count
        ways.append((default, rest, values[:default_count]))
        return ways

    return execute


def _case_values(site: Site) -> list[int]:
    if not site.has("case_values"):
        return []
    return [int(x) for x in ir.DenseIntElementsAttr(site.op.attributes["case_values"])]


@semantics(*HINTS)
def nothing(site: Site) -> Execute:
    """The operands are computed, and that is all."""

    def execute(unit: Unit, *operands: Any) -> None:
        return None

    return execute
