"""Workgroup memory beside the ring's where two groups take tiles in turn: a version for each group, stores
in flight on slots of these, what is refused, and that each part of the result is needed.

Covers: pipeliner/plan/ping_pong_plan.py, pipeliner/expand/write/write_roles.py, pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.machine_programs import parse
from helpers.role_orders import ORDERS, ops, wrong
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_stores import stores_text
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import before, constant, constant_value, walk
from mlir_async_pipe.session.diagnostics import AsyncPipeError

STORED = TensorLoop(
    (Box(2, 32),), roles="ping-pong", static=True, executions=4, trips=2, stages=2, stored="after"
)
TILE = "%o = memref.alloc() : memref<64xf32, WG>"
WRITE = "memref.store %r#2, %o[%t] : memref<64xf32, WG>"
PLAIN = replace(STORED, stored="")


def in_flight(text: str, count: int) -> str:
    asked = f"{{async_pipe.independent, async_pipe.stores_in_flight = {count} : i64}}"
    return text.replace("{async_pipe.independent}", asked)


def handed_over(declared: str = "") -> str:
    """After each tile threads hand over numbers to their neighbours, which write them over its first row."""
    text = PLAIN.text().replace(
        "%b0 =", f"%o = memref.alloc() {declared}: memref<64xf32, WG>\n%b0 ="
    )
    return text.replace(
        "scf.yield %r#1 : i1",
        """%other = arith.xori %t, %i1 : index
        %turned = arith.subi %i63, %t : index
        %old = arith.index_cast %turned : index to i32
        %number = arith.sitofp %old : i32 to f32
        memref.store %number, %o[%turned] : memref<64xf32, WG>
        gpu.barrier
        %seen = memref.load %o[%other] : memref<64xf32, WG>
        gpu.barrier
        %row = arith.muli %e, %i2 : index
        memref.store %seen, %out[%row, %t] : memref<?x64xf32>
        scf.yield %r#1 : i1""",
    )


def in_subtiles() -> str:
    """The row goes out by an inner loop, whose iterations each store all of it again, and wait until it
    is there."""
    text = stores_text(STORED).replace("wait_group 0 {read}", "wait_group 0")
    text = text.replace(WRITE, f"scf.for %half = %i0 to %i2 step %i1 {{\n{WRITE}")
    return text.replace("scf.yield %r#1 : i1", "}\nscf.yield %r#1 : i1")


FORMS = {
    "a store": stores_text(STORED),
    "one store in flight": in_flight(stores_text(STORED), 1),
    "two stores in flight": in_flight(stores_text(STORED), 2),
    "any number of iterations": stores_text(replace(STORED, static=False, stages=3)),
    "any number, one in flight": in_flight(stores_text(replace(STORED, static=False)), 1),
    "five tiles": stores_text(replace(STORED, executions=5, trips=3)),
    "in an inner loop": in_subtiles(),
    "a window of dynamic memory": stores_text(STORED).replace(
        TILE,
        "%dyn = gpu.dynamic_shared_memory : memref<?xi8, WG>\n%window = arith.constant 1024 : index\n"
        "%o = memref.view %dyn[%window][] : memref<?xi8, WG> to memref<64xf32, WG>",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_group_has_a_tile_that_is_stored_and_it_is_proven_and_right(form: str) -> None:
    module = parse(FORMS[form])
    report = pipeline(module)
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)
    left = {"one store in flight": 1, "two stores in flight": 2, "any number, one in flight": 1}
    slots = f"{left[form] + 1}x" if form in left else ""
    assert f"memref<{slots}2x64xf32, #gpu" in str(module)
    loop = replace(STORED, executions=5, trips=3) if form == "five tiles" else STORED
    if "any number" in form:
        loop = replace(STORED, static=False)
    assert wrong(loop, module, ORDERS) == []


@pytest.mark.parametrize("declared", ["", "{async_pipe.private} "])
def test_what_threads_of_a_group_hand_over_has_a_version_for_each(declared: str) -> None:
    """Of plain accesses between barriers whose number is the group's the checker cannot tell."""
    module = parse(handed_over(declared))
    report = pipeline(module, check="warn")
    (found,) = report.of("checks")
    assert not found.unsafe
    assert "memref<2x64xf32, #gpu" in str(module)
    for completion, schedule in ORDERS:
        result = machine.run(
            module,
            None,
            PLAIN.arguments(),
            threads=2 * PLAIN.threads + 32,
            completion=completion,
            schedule=schedule,
        )
        assert not result.race_codes
        rows = result.arrays[1].reshape(-1, 64)[::2]
        assert np.array_equal(rows, np.tile(np.arange(64) ^ 1, (len(rows), 1)))


def test_a_global_named_in_the_loop_has_one_too() -> None:
    text = stores_text(STORED).replace(TILE, "")
    text = text.replace(WRITE, f"%o = memref.get_global @g : memref<64xf32, WG>\n{WRITE}")
    module = parse(f'memref.global "private" @g : memref<64xf32, WG>\n{text}')
    pipeline(module)
    assert wrong(STORED, module, ORDERS[::4]) == []


def test_the_memory_of_both_counts() -> None:
    """Three slots of 256 bytes and two tiles of 256 are 1280; the mbarriers are no buffers."""
    loop = replace(STORED, stages=3)
    fits, fewer = (pipeline(parse(stores_text(loop)), smem_limit=n) for n in (1280, 1279))
    codes = [{entry.code for entry in report.diagnostics} for report in (fits, fewer)]
    assert ["fewer-slots" in found for found in codes] == [False, True]
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(stores_text(loop)), smem_limit=900)
    assert refused.value.code == "smem-limit"


# -- each part is needed ---------------------------------------------------------------------------


def _near(module: Any, name: str, step: int) -> Any:
    """The op of a name that comes next to the tensor store."""
    found = [op for op in walk(module.operation) if op.name in (name, "nvgpu.tma.async.store")]
    (store,) = [n for n, op in enumerate(found) if op.name == "nvgpu.tma.async.store"]
    return found[store + step]


def _one_tile(module: Any) -> None:
    """Both groups use the first version."""
    for view in ops(module, "memref.subview"):
        if "memref<2x64xf32" in str(view.operands[0].type):
            group = view.operands[1]
            view.operands[1] = constant(0, group.type, before(view), view.location)


def _of_all(module: Any) -> None:
    """Before the store all threads of both groups meet."""
    barrier = _near(module, "nvvm.barrier", -1)
    with barrier.context:
        ir.Operation.create("gpu.barrier", ip=ir.InsertionPoint(barrier), loc=barrier.location)
    barrier.erase()


def _of_first(module: Any) -> None:
    """Both groups meet at the barrier of the first one, each for itself."""
    for barrier in ops(module, "nvvm.barrier"):
        if constant_value(barrier.operands[1]) == STORED.threads:
            number = barrier.operands[0]
            barrier.operands[0] = constant(1, number.type, before(barrier), barrier.location)


MUTANTS: dict[str, Callable[[Any], None]] = {
    "one tile for both": _one_tile,
    "all threads meet": _of_all,
    "no fence": lambda module: _near(module, "nvvm.fence.proxy", -1).erase(),
    "no barrier before the store": lambda module: _near(module, "nvvm.barrier", -1).erase(),
    "no wait": lambda module: _near(module, "nvvm.cp.async.bulk.wait_group", 1).erase(),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_change_of_one_part_goes_wrong(mutant: str) -> None:
    loop = replace(STORED, executions=6, trips=1)
    module = parse(stores_text(loop))
    pipeline(module, check="none")
    with module.context:
        MUTANTS[mutant](module)
    assert module.operation.verify()
    (found,) = check(module).of("checks")
    assert found.unsafe
    assert any(wrong(loop, module, [order]) for order in ORDERS)


def test_the_order_of_the_loops_stands_in_for_the_barrier_after_the_wait() -> None:
    """All threads of a group meet at it between the store of a tile and the writes of the next one."""
    module = parse(stores_text(STORED))
    pipeline(module, check="none")
    _near(module, "nvvm.barrier", 1).erase()
    (found,) = check(module).of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)
    assert wrong(STORED, module, ORDERS) == []


# -- refused ---------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Callable[[str], str], str]] = {
    "used beside the loop": (
        stores_text(STORED),
        lambda text: text.replace(
            "gpu.barrier\n%end",
            "memref.store %zero, %o[%t] : memref<64xf32, WG>\ngpu.barrier\n%end",
        ),
        "threads that are added would run it",
    ),
    "used after the loop": (
        stores_text(STORED),
        lambda text: text.replace(
            "\nreturn",
            "\n%last = memref.load %o[%t] : memref<64xf32, WG>\nvector.print %last : f32\nreturn",
        ),
        "both groups would run",
    ),
    "a view of it made before": (
        stores_text(STORED),
        lambda text: text.replace(
            TILE,
            "%w = memref.alloc() : memref<64xf32, WG>\n"
            "%o = memref.cast %w : memref<64xf32, WG> to memref<64xf32, WG>",
        ),
        "'memref.cast' uses it beside the loop around",
    ),
    "made in the loop": (
        stores_text(STORED),
        lambda text: text.replace(TILE, "").replace(WRITE, f"{TILE}\n{WRITE}"),
        "it is made in the loop around",
    ),
    "other elements in each tile": (
        stores_text(STORED),
        lambda text: text.replace(
            WRITE,
            "%turned = arith.xori %t, %e : index\n%there = arith.remui %turned, %i64 : index\n"
            "memref.store %r#2, %o[%there] : memref<64xf32, WG>",
        ),
        "which elements 'memref.store' writes may change",
    ),
    "now and then": (
        stores_text(STORED),
        lambda text: text.replace(
            WRITE, f"%odd = arith.cmpi ne, %e, %i1 : index\nscf.if %odd {{\n{WRITE}\n}}"
        ),
        "which elements 'memref.store' writes may change",
    ),
    "written after its store": (
        stores_text(STORED),
        lambda text: text.replace("scf.yield %r#1 : i1", f"{WRITE}\nscf.yield %r#1 : i1"),
        "writes it after its store",
    ),
    "written in a loop of another kind": (
        stores_text(STORED),
        lambda text: text.replace(
            WRITE,
            f"scf.while : () -> () {{\nscf.condition(%false)\n}} do {{\n{WRITE}\nscf.yield\n}}",
        ),
        "a write of it stands inside of 'scf.while'",
    ),
    "stored in a loop, written before that": (
        stores_text(STORED),
        lambda text: text.replace(
            WRITE, f"{WRITE}\nscf.for %half = %i0 to %i2 step %i1 {{"
        ).replace("scf.yield %r#1 : i1", "}\nscf.yield %r#1 : i1"),
        "'memref.store' writes it after its store",
    ),
    "read in a loop, written in a later iteration of it": (
        handed_over(),
        lambda text: text.replace(
            "memref.store %number, %o[%turned] : memref<64xf32, WG>",
            """scf.for %j = %i0 to %i64 step %i1 {
            memref.store %number, %o[%j] : memref<64xf32, WG>
            %after = arith.subi %i63, %j : index
            %early = memref.load %o[%after] : memref<64xf32, WG>
            memref.store %early, %out[%e, %t] : memref<?x64xf32>
            }""",
        ),
        "'memref.load' may read what the tile of the other group wrote",
    ),
    "its address is taken": (
        handed_over(),
        lambda text: text.replace(
            "%turned =",
            "%number_of = memref.extract_aligned_pointer_as_index %o : memref<64xf32, WG> -> index\n"
            "%turned =",
        ),
        "who reads it by what 'memref.extract_aligned_pointer_as_index' gives is not known",
    ),
    "read before it is written": (
        handed_over(),
        lambda text: text.replace(
            "%turned =",
            "%before = memref.load %o[%t] : memref<64xf32, WG>\n"
            "memref.store %before, %out[%e, %t] : memref<?x64xf32>\ngpu.barrier\n%turned =",
        ),
        "'memref.load' may read what the tile of the other group wrote",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_both_groups_cannot_have_is_refused(name: str) -> None:
    text, change, words = REFUSED[name]
    assert change(text) != text
    module = parse(change(text))
    kept = str(module)
    with pytest.raises(AsyncPipeError, match=re.escape(words)) as refused:
        pipeline(module, check="none")
    assert refused.value.code == "roles-unsupported"
    assert str(module) == kept


def test_the_author_may_vouch_for_what_is_written() -> None:
    """Rows that are turned from tile to tile are whole rows all the same."""
    text, change, _ = REFUSED["other elements in each tile"]
    private = TILE.replace("alloc()", "alloc() {async_pipe.private}")
    module = parse(change(text).replace(TILE, private))
    pipeline(module, check="none")
    assert "memref<2x64xf32, #gpu" in str(module)
