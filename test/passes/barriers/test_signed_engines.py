"""Signed, unsigned and wrapped conditions in the passes that act on what is proven.

    wait 0; read s        may leave 1 group in flight only if the second wait runs
    if p { wait 0 }       whenever t is read: not for p = n >s 1, q = n >u 1
    if q { read t }

A drain may go and a barrier is not needed under the same condition.

Covers: pipeliner/ask_checker/needed_barriers.py, pipeliner/ask_checker/attach_tokens.py, checker/arithmetic.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.facts.loops.annotations import DRAIN
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %n: i32)
      workgroup(%s: memref<64xf32, 3>, %t: memref<64xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c10 = arith.constant 10 : index
    %c63 = arith.constant 63 : index
    %one = arith.constant 1 : i32
    %tid = gpu.thread_id x
    %other = arith.subi %c63, %tid : index
    {lines}
    gpu.return
  }}
}}
"""
WAIT = "nvvm.cp.async.wait.group 0"
DRAINING = f"{WAIT} {{{DRAIN}}}"


def copy_to(buffer: str) -> str:
    """A copy of each thread's element, in a group of its own."""
    return f"""%{buffer}_copy = nvgpu.device_async_copy %A[%tid], %{buffer}[%tid], 1
        : memref<64xf32> to memref<64xf32, 3>
    %{buffer}_group = nvgpu.device_async_create_group %{buffer}_copy
    """


def read(buffer: str, place: str = "%tid") -> str:
    return f"%{buffer}_value = memref.load %{buffer}[{place}] : memref<64xf32, 3>\n    "


# The body of a kernel where {p} decides whether a wait or barrier runs, {q} whether what needs
# it does; and the records of the pass that takes the first wait, or adds the barrier.
PROGRAMS = {
    "async-pipe-tokens": copy_to("s")
    + copy_to("t")
    + f"{WAIT}\n{read('s')} scf.if %p {{ {WAIT} }} scf.if %q {{ {read('t')} }}",
    "async-pipe-drop-drains": copy_to("s")
    + f"{DRAINING}\n scf.if %p {{ {WAIT} }} scf.if %q {{ {read('s')} }} {WAIT}\n",
    "async-pipe-barriers": copy_to("s")
    + f"{WAIT}\n scf.if %p {{ gpu.barrier }} scf.if %q {{ {read('s', '%other')} }} gpu.barrier\n",
}
RECORDS = {
    "async-pipe-tokens": "relaxed",
    "async-pipe-drop-drains": "drains",
    "async-pipe-barriers": "barriers",
}
OPTIONS = {"async-pipe-tokens": {"relax": True}}


def changes(name: str, lines: str) -> int:
    """How many waits or barriers a pass changes; the result is proven."""
    with new_context():
        module = ir.Module.parse(KERNEL.format(lines=lines))
        session = Session()
        found = passes.find(name)
        found.run(module.operation, found.options(**OPTIONS.get(name, {})), session)
        checked = check_module(module)
        assert not checked.unsafe and not checked.unknown
        return len(session.report().of(RECORDS[name]))


def expected(name: str, implied: bool) -> int:
    """One wait goes where the next one is enough; one barrier comes where it is not."""
    return int(implied == (name != "async-pipe-barriers"))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("p", "q", "implied"),
    [("sgt", "sgt", True), ("ugt", "sgt", True), ("slt", "ult", True), ("sgt", "ugt", False)],
)
def test_conditions_of_two_signednesses(name: str, p: str, q: str, implied: bool) -> None:
    """n >s 1 implies n >u 1, and n <u 1 implies n <s 1, not the other way round."""
    lines = f"%p = arith.cmpi {p}, %n, %one : i32\n%q = arith.cmpi {q}, %n, %one : i32\n"
    assert changes(name, lines + PROGRAMS[name]) == expected(name, implied)


IN_LOOP = """
    %yes = arith.constant true
    scf.for %i = %c0 to %c10 step %c1 {{
      %x = arith.index_cast %i : index to {kind}
      %by = arith.constant {by} : {kind}
      %limit = arith.constant {limit} : {kind}
      %d = arith.addi %x, %by : {kind}
      %p = arith.cmpi {predicate}, %d, %limit : {kind}
      %q = arith.cmpi eq, %yes, %yes : i1
      {lines}
    }}"""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("kind", "by", "predicate", "limit", "always"),
    [
        ("i32", -2, "slt", 8, True),
        ("i32", -2, "ult", 8, False),
        ("i64", -2, "ult", 8, False),
        ("i8", 118, "sgt", 0, True),
        ("i8", 119, "sgt", 0, False),
        ("i16", 119, "sgt", 0, True),
        ("i8", 119, "ugt", 0, True),
        ("i8", -9, "ugt", 0, False),
        ("i8", -9, "ult", -10, False),
    ],
)
def test_conditions_on_a_counter(
    name: str, kind: str, by: int, predicate: str, limit: int, always: bool
) -> None:
    """i - 2 <u 8 fails for 0 and 1; i + 119 >s 0 as i8 for 9, where it is -128."""
    lines = IN_LOOP.format(kind=kind, by=by, predicate=predicate, limit=limit, lines=PROGRAMS[name])
    assert changes(name, lines) == expected(name, always)


@pytest.mark.parametrize(("waits_if", "count"), [("%p", 1), ("%q", 0)])
def test_counts_take_two_signednesses_as_two_conditions(waits_if: str, count: int) -> None:
    """Whoever waits has committed a second group only if both ask the same."""
    lines = f"""%p = arith.cmpi sgt, %n, %one : i32
    %q = arith.cmpi ugt, %n, %one : i32
    {copy_to("s")}
    scf.if %p {{ {copy_to("t")} }}
    scf.if {waits_if} {{ nvgpu.device_async_wait %s_group }}"""
    with new_context():
        module = ir.Module.parse(KERNEL.format(lines=lines))
        found = passes.find("async-pipe-count-waits")
        found.run(module.operation, found.options(), Session())
        (wait,) = [op for op in walk(module) if op.name == "nvgpu.device_async_wait"]
        assert integer_attribute(wait, "numGroups") == count
