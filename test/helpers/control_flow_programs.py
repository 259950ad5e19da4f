"""Programs around every op that moves control: those of the table, and those that the installed
dialects register.

A program has holes: `before` stands before the op, `inside` in its regions (or in the
blocks that it goes to, or in the function that it calls), `after` after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import before, create, walk
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, CALL_OPS, REGION_ROWS

ARGUMENTS = (
    "%A: memref<64xf32> {llvm.noalias}, %B: memref<64xf32, 3> {llvm.noalias}, "
    "%O: memref<64xf32> {llvm.noalias}, %p: i1, %n: index, %k: i32, %c0: index, %c1: index"
)
TYPES = "memref<64xf32>, memref<64xf32, 3>, memref<64xf32>, i1, index, i32, index, index"
NAMES = "%A, %B, %O, %p, %n, %k, %c0, %c1"
COPY = """
  %t{0} = nvgpu.device_async_copy %A[%c0], %B[%c0], 1 : memref<64xf32> to memref<64xf32, 3>
  %g{0} = nvgpu.device_async_create_group %t{0}
"""
LOAD = """
  %v{0} = memref.load %B[%c0] : memref<64xf32, 3>
  memref.store %v{0}, %O[%c0] : memref<64xf32>
"""
RACE = COPY + LOAD
PLACES = ("before", "inside", "after")


def function(body: str, name: str = "f", kind: str = "func.func", end: str = "return") -> str:
    return f"{kind} @{name}({ARGUMENTS}) {{{body}\n  {end}\n}}\n"


# What each op of the table looks like around `{inside}`.
REGIONS = {
    "scf.for": "scf.for %i = %c0 to %n step %c1 {{ {inside} }}",
    "affine.for": "affine.for %i = 0 to %n {{ {inside} }}",
    "scf.if": "scf.if %p {{ {inside} }}",
    "affine.if": "affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%n) {{ {inside} }}",
    "scf.index_switch": "scf.index_switch %n\ncase 2 {{ {inside}\n scf.yield }}\ndefault {{ }}",
    "gpu.warp_execute_on_lane_0": "gpu.warp_execute_on_lane_0(%n)[32] {{ {inside} }}",
    "scf.while": "scf.while : () -> () {{ {inside}\n scf.condition(%p) }} do {{ scf.yield }}",
    "scf.execute_region": "scf.execute_region {{ {inside}\n scf.yield }}",
    "memref.alloca_scope": "memref.alloca_scope {{ {inside} }}",
    "scf.forall": "scf.forall (%i) in (%n) {{ {inside} }}",
    "scf.parallel": "scf.parallel (%i) = (%c0) to (%n) step (%c1) {{ {inside}\n scf.reduce }}",
    "affine.parallel": "affine.parallel (%i) = (0) to (8) {{ {inside} }}",
    "gpu.launch": (
        "gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)"
        " threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1)"
        " {{ {inside}\n gpu.terminator }}"
    ),
}
# Rows that cannot hold, or stand before, code of a kernel; and why.
OTHERWISE = {
    "async_pipe.scope": "a scope holds an async statement, not a copy with its wait",
    "vector.mask": "its region is one vector op",
    "func.func": "a kernel of its own, see FUNCTIONS",
    "gpu.func": "a kernel of its own, see FUNCTIONS",
    "llvm.func": "a kernel of its own, see FUNCTIONS",
    "cuda.kernel": "a kernel of its own, see test_cuda_kernels.py",
    "gpu.module": "holds functions only",
    "gpu.all_reduce": "its region adds two numbers up, and sees nothing else",
    "builtin.module": "holds functions only",
}
BRANCHES = {
    "cf.br": "cf.br ^a",
    "cf.cond_br": "cf.cond_br %p, ^a, ^b",
    "cf.switch": "cf.switch %k : i32, [ default: ^b, 3: ^a ]",
    "llvm.br": "llvm.br ^a",
    "llvm.cond_br": "llvm.cond_br %p, ^a, ^b",
    "llvm.switch": "llvm.switch %k : i32, ^b [ 3: ^a ]",
}
BLOCKS = "{jump}\n^a: {inside}\n cf.br ^b\n^b: {after}\n"
DIRECT = f"func.call @g({NAMES}) : ({TYPES}) -> ()"
CALLS = {
    "func.call": DIRECT,
    "llvm.call": DIRECT,
    "gpu.call": DIRECT,
    "func.call_indirect": (
        f"%fn = func.constant @g : ({TYPES}) -> ()\n"
        f"func.call_indirect %fn({NAMES}) : ({TYPES}) -> ()"
    ),
}


def numbered(parts: dict[str, str]) -> dict[str, str]:
    """The parts with names that do not meet."""
    return {place: parts.get(place, "").format(place) for place in PLACES}


def program(name: str, **parts: str) -> Any:
    """The module of an op of the table; `parts` fill its holes. Calls of other dialects take the
    place of a func.call, whatever their verifier says of the functions here."""
    module = ir.Module.parse(_text(name, **parts))
    for op in walk(module):
        if op.name == "func.call" and name != op.name:
            attributes = {"callee": op.attributes["callee"]}
            create(name, list(op.operands), (), attributes, ip=before(op), loc=op.location)
            op.erase()
    return module


def _text(name: str, **parts: str) -> str:
    made = numbered(parts)
    if name in REGIONS:
        return function(made["before"] + REGIONS[name].format(**made) + made["after"])
    if name in BRANCHES:
        return function(made["before"] + BLOCKS.format(jump=BRANCHES[name], **made))
    callee = function(made["inside"], "g", "func.func private")
    return function(made["before"] + CALLS[name] + made["after"]) + callee


def only(module: Any, name: str) -> Any:
    """The first op of that name."""
    return next(op for op in walk(module) if op.name == name)


# What each op that hands on a value looks like, where that is %c0 or %n.
RESULTS = {
    "scf.for": "scf.for %i = %c0 to %c1 step %c1 iter_args(%x = %c0) -> (index) { scf.yield %n : index }",
    "affine.for": "affine.for %i = 0 to 8 iter_args(%x = %c0) -> (index) { affine.yield %n : index }",
    "scf.if": "scf.if %p -> (index) { scf.yield %c0 : index } else { scf.yield %n : index }",
    "affine.if": "affine.if affine_set<(d0) : (d0 >= 0)>(%n) -> index { affine.yield %c0 : index } "
    "else { affine.yield %n : index }",
    "scf.index_switch": "scf.index_switch %n -> index\ncase 2 { scf.yield %c0 : index }\n"
    "default { scf.yield %n : index }",
    "scf.while": "scf.while (%x = %c0) : (index) -> index { scf.condition(%p) %x : index } "
    "do { ^bb0(%y: index): scf.yield %n : index }",
    "scf.execute_region": "scf.execute_region -> index { cf.cond_br %p, ^a, ^b\n"
    "^a: scf.yield %c0 : index\n^b: scf.yield %n : index }",
    "memref.alloca_scope": "memref.alloca_scope -> (index) { memref.alloca_scope.return %n : index }",
}


def result_program(name: str) -> Any:
    """The module of such an op in a function of (%p, %n, %c0, %c1)."""
    text = "func.func @f(%p: i1, %n: index, %c0: index, %c1: index) {{ %r = {} return }}"
    return ir.Module.parse(text.format(RESULTS[name] + "\n"))


TABLE = (*REGIONS, *BRANCHES, *CALLS)


def rows() -> set[str]:
    """All ops with regions or successors, and all calls, of the table."""
    return {*REGION_ROWS, *BRANCH_ROWS, *CALL_OPS}


# Ops of the installed dialects -------------------------------------------------------------------


def registered() -> Iterator[tuple[str, int, bool]]:
    """The ops that the bindings know with regions or successors and that have no row: their
    name, the least number of regions that they have, and whether they have successors."""
    folder = Path(ir.__file__).parent / "dialects"
    regions: dict[str, int] = {}
    branches: set[str] = set()
    name = ""
    for path in sorted(folder.glob("*_ops_gen.py")):
        for line in path.read_text().splitlines():
            if found := re.match(r'\s+OPERATION_NAME = "(.*)"', line):
                name = found[1]
            elif found := re.match(r"\s+_ODS_REGIONS = \((\d+), (True|False)\)", line):
                count = max(int(found[1]), found[2] == "False")
                if count:
                    regions[name] = count
            elif "_ods_successors.append" in line or "_ods_successors = [" in line:
                branches.add(name)
    for op in sorted(regions.keys() | branches):
        if op not in rows():
            yield op, regions.get(op, 0), op in branches


# What ops whose row names operands are given.
OPERANDS = {"memref.generic_atomic_rmw": ("%B, %c0", "memref<64xf32, 3>, index")}


def around(name: str, regions: int, branches: bool, **parts: str) -> Any:
    """A module with an op of which no row says how it moves control, made without its verifier.
    Its regions, or the first block that it goes to, hold `inside`."""
    made = numbered(parts)
    if branches:
        jump = '"my.op"() [^a, ^b] : () -> ()'
        text = made["before"] + BLOCKS.format(jump=jump, **made)
    else:
        held = ", ".join(f"{{{made['inside']}}}" for _ in range(regions))
        operands, types = OPERANDS.get(name, ("", ""))
        text = f'{made["before"]}"my.op"({operands}) ({held}) : ({types}) -> (){made["after"]}'
    module = ir.Module.parse(function(text))
    old = next(op for op in walk(module) if op.name == "my.op")
    new = create(
        name,
        list(old.operands),
        regions=regions,
        successors=list(old.successors),
        ip=before(old),
        loc=old.location,
    )
    for source, target in zip(old.regions, new.regions, strict=False):
        for block in list(source.blocks):
            block.append_to(target)
    old.erase()
    return module
