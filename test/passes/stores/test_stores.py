"""Tensor stores stay in flight on q + 1 slots of their tiles: in a loop, after one in a persistent
loop, by the warps that compute, in every form of waiting; each part that is changed is found.

Covers: pipeliner/expand/stores_pass.py, pipeliner/plan/tensor_tiles.py, pipeliner/dependence/privatise.py, pipeliner/expand/write/carried_ring.py, pipeliner/normalise/own_buffers.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.check_harness import check_module, codes
from helpers.machine_programs import parse
from helpers.tensor_stores import FENCE, LOOP, PERSISTENT, WAIT, plain_text, stores_text, sums_text
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import passmanager
from mlir_async_pipe.pipeliner.ask_checker.attach_tokens import relax
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

ONE = "async_pipe.stores_in_flight = 1 : i64"
BOTH = f"{WAIT}\ngpu.barrier"
TRIPS = 7
ROWS = np.arange(TRIPS * 64, dtype=np.float32)

# Those of all iterations but 1 and 4.
SOME_ROWS = np.where(ROWS // 64 % 3 == 1, np.float32(0), ROWS)


def plain_arguments() -> list[Any]:
    return [np.zeros(TRIPS * 64, np.float32), TRIPS]


def in_branch(text: str) -> str:
    """One thread stores, commits and waits, in a branch of its own."""
    text = text.replace(
        "nvgpu.tma.async.store %o to %out[%row], predicate = %leader",
        "scf.if %leader {\nnvgpu.tma.async.store %o to %out[%row]",
    )
    return text.replace(BOTH, f"{WAIT}\n}}\ngpu.barrier")


def waits_first(text: str) -> str:
    """The wait is for the store of the iteration before."""
    text = text.replace(BOTH, "")
    return text.replace("memref.store %value", f"{BOTH}\nmemref.store %value")


def now_and_then(text: str) -> str:
    """Two of three iterations write and store a row."""
    text = text.replace("memref.store %value", "scf.if %there {\nmemref.store %value")
    text = text.replace(BOTH, f"{BOTH}\n}}")
    return text.replace(
        "%number =",
        "%three = arith.constant 3 : index\n%left = arith.remui %i, %three : index\n"
        "%there = arith.cmpi ne, %left, %c1 : index\n%number =",
    )


def subtiles(text: str) -> str:
    """The loop in another one, each of whose executions stores rows of its own."""
    text = text.replace(
        "scf.for %i = %c0 to %n",
        "scf.for %from = %c0 to %n step %c1 {\nscf.for %i = %from to %next",
    )
    text = text.replace("scf.for %i =", "%next = arith.addi %from, %c1 : index\nscf.for %i =")
    return text.replace("\n  return", "\n}\n  return")


def two_tiles(text: str) -> str:
    """Two loops in one, one for rows of even numbers, one for the others, each with a tile of its own."""
    start, end = text.index("  scf.for %i"), text.index("  return")
    even, odd = (
        text[start:end].replace("%o ", f"{o} ").replace("%o[", f"{o}[") for o in ("%o", "%p")
    )
    even = even.replace("%i = %c0 to %n", "%i = %from to %next")
    odd = odd.replace("%i = %c0 to %n", "%i = %next to %last")
    return f"""{text[:start]}
  %p = memref.alloc() : memref<64xf32, WG>
  %c2 = arith.constant 2 : index
  scf.for %from = %c0 to %n step %c2 {{
    %next = arith.addi %from, %c1 : index
    %after = arith.addi %from, %c2 : index
    %last = arith.minui %after, %n : index
    {even}{odd}
  }}
{text[end:]}"""


FORMS: dict[str, tuple[str, Callable[[], list[Any]], int, Any]] = {
    "in the loop": (stores_text(), LOOP.arguments, 1, LOOP.expected(LOOP.arguments())),
    "after the loop": (
        stores_text(PERSISTENT),
        PERSISTENT.arguments,
        1,
        PERSISTENT.expected(PERSISTENT.arguments()),
    ),
    "in the loop, roles": (
        stores_text(replace(LOOP, roles="specialised")),
        LOOP.arguments,
        1,
        LOOP.expected(LOOP.arguments()),
    ),
    "after the loop, roles": (
        stores_text(replace(PERSISTENT, roles="specialised")),
        PERSISTENT.arguments,
        1,
        PERSISTENT.expected(PERSISTENT.arguments()),
    ),
    "without copies": (plain_text(ONE), plain_arguments, 0, ROWS),
    "in a branch": (in_branch(plain_text(ONE)), plain_arguments, 0, ROWS),
    "waits first": (waits_first(plain_text(ONE)), plain_arguments, 0, ROWS),
    "in two loops": (subtiles(plain_text(ONE)), plain_arguments, 0, ROWS),
    "now and then": (now_and_then(plain_text(ONE)), plain_arguments, 0, SOME_ROWS),
    "two in flight": (plain_text(ONE.replace("1", "2", 1)), plain_arguments, 0, ROWS),
    "three in flight": (plain_text(ONE.replace("1", "3", 1)), plain_arguments, 0, ROWS),
}


def wrong_runs(module: Any, arguments: Callable[[], list[Any]], out: int, rows: Any) -> list[str]:
    """What goes wrong in some completion and order of the warps."""
    threads = int(re.findall(r"known_block_size = array<i32: (\d+)", str(module))[0])
    found = []
    for completion in machine.COMPLETIONS:
        for schedule in machine.SCHEDULES:
            result = machine.run(
                module, None, arguments(), threads=threads, completion=completion, schedule=schedule
            )
            found += sorted(result.race_codes)
            if not np.array_equal(result.arrays[out].reshape(-1), rows.reshape(-1)):
                found.append("another result")
    return found


def reported(report: Any) -> set[str]:
    """The codes of all that was said, remarks too."""
    return {entry.code for entry in report.diagnostics}


def waits(module: Any) -> list[int]:
    return [int(n) for n in re.findall(r"bulk.wait_group (\d+) \{read", str(module))]


@pytest.mark.parametrize("name", FORMS)
def test_stores_stay_in_flight_and_are_proven_and_right(name: str) -> None:
    text, *how = FORMS[name]
    module = parse(text)
    report = pipeline(module, check="error")
    (check,), (made,) = report.of("checks"), report.of("stores")
    assert (check.unsafe, check.unknown) == (0, 0)
    assert waits(module) == [made.in_flight, 0]
    assert made.in_flight == {"two": 2, "three": 3}.get(name.split()[0], 1)
    assert made.bytes == (made.in_flight + 1) * 256
    assert f"memref<{made.in_flight + 1}x64xf32, #gpu" in str(module)
    assert wrong_runs(module, *how) == []


def test_sums_of_a_warpgroup_are_written_to_slots() -> None:
    module = parse(sums_text(ONE))
    report = pipeline(module, check="error")
    (check,) = report.of("checks")
    assert (check.unsafe, check.unknown) == (0, 0)
    assert waits(module) == [1, 0]
    out = np.zeros((TRIPS * 64, 16), np.float32)
    assert wrong_runs(module, lambda: [out + 1, TRIPS], 0, out) == []
    early = parse(str(module).replace("wait_group 1 {read", "wait_group 2 {read"))
    assert codes(check_module(early).report) == {"source-overwritten"}


def test_loops_in_one_loop_go_on_with_slots_of_their_own() -> None:
    module = parse(two_tiles(plain_text(ONE)))
    report = pipeline(module, check="error")
    (check,) = report.of("checks")
    assert (check.unsafe, check.unknown) == (0, 0)
    assert [made.slots for made in report.of("stores")] == [2, 2]
    # One wait after the loop around is enough for both.
    assert waits(module) == [1, 1, 0]
    assert wrong_runs(module, plain_arguments, 0, ROWS) == []


WRONG = {
    "one more in flight": (r"wait_group 1 \{read", "wait_group 2 {read", {"source-overwritten"}),
    "none waited for at the end": (
        r"\n *nvvm.cp.async.bulk.wait_group 0 .*",
        "",
        {"unwaited-copy"},
    ),
    "the slot stays": (
        r"arith.andi (%\d+), %c1(?:_\d+)? : index",
        r"arith.andi \1, %c0 : index",
        {"source-overwritten"},
    ),
    "the barrier before the wait": (
        r"(nvvm.cp.async.bulk.wait_group 1 .*)\n *gpu.barrier",
        r"gpu.barrier\n\1",
        {"missing-barrier"},
    ),
    "no fence": (r"nvvm.fence.proxy .*", "", {"missing-fence"}),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in WRONG
        for form in ("without copies", "after the loop")
        # The barriers of the inner loop come after that wait, too.
        if (name, form) != ("the barrier before the wait", "after the loop")
    ],
)
def test_each_part_that_is_changed_is_found(name: str, form: str) -> None:
    text, *how = FORMS[form]
    module = parse(text)
    pipeline(module, check="none")
    pattern, instead, expected = WRONG[name]
    changed, times = re.subn(pattern, instead, str(module))
    assert times == 1
    mutant = parse(changed)
    assert codes(check_module(mutant).report) & expected
    assert wrong_runs(parse(changed), *how) != []


def test_a_wait_that_is_too_strict_becomes_exact() -> None:
    """What is left in flight is what the slots allow; one more is what the witness is about."""
    module = parse(plain_text(ONE.replace("1", "2", 1)))
    pipeline(module, check="none")
    strict = parse(str(module).replace("wait_group 2 {read", "wait_group 0 {read"))
    (found,) = relax(strict.operation, None, Session())
    assert (found.before, found.after) == (0, 2)
    assert (
        found.because == "'memref.store' writes what 'nvgpu.tma.async.store' may still be reading"
    )


@pytest.mark.parametrize(("limit", "left"), [(2 * 256, 1), (3 * 256, 2), (8 * 256, 3)])
def test_memory_that_has_no_room_leaves_fewer(limit: int, left: int) -> None:
    module = parse(plain_text(ONE.replace("1", "3", 1)))
    report = pipeline(module, smem_limit=limit)
    assert waits(module) == [left, 0]
    assert ("fewer-slots" in reported(report)) == (left < 3)


def test_memory_for_one_slot_leaves_the_loop_as_it_was() -> None:
    text = plain_text(ONE)
    module = parse(text)
    report = pipeline(module, smem_limit=300)
    assert reported(report) == {"fewer-slots"}
    assert str(module) == str(parse(text.replace(ONE, "")))


def test_loops_share_the_memory() -> None:
    """The first loop takes what the second one would have."""
    first = plain_text(ONE)
    start, end = first.index("  scf.for"), first.index("  return")
    second = first[start:end].replace("%o[", "%p[").replace("%o to", "%p to")
    # Of two stores to one row, where nobody has waited for the first one, either may come last.
    second = second.replace("%row =", "%later = arith.addi %i, %n : index\n%row =", 1)
    second = second.replace("arith.muli %i, %c64", "arith.muli %later, %c64")
    text = first.replace("  return", f"{second}  return")
    text = text.replace("%c0 =", "%p = memref.alloc() : memref<64xf32, WG>\n%c0 =", 1)
    module = parse(text)
    report = pipeline(module, smem_limit=3 * 256)
    assert waits(module) == [1, 0, 0]
    assert len(report.of("stores")) == 1
    given = [np.zeros(2 * TRIPS * 64, np.float32), TRIPS]
    rows = np.arange(2 * TRIPS * 64, dtype=np.float32)
    assert wrong_runs(module, lambda: given, 0, rows) == []


def test_upstreams_nvvm_form_gets_slots_too() -> None:
    """Pointers that its conversion took out of the loop are computed in it again."""
    for conversion in ("convert-nvgpu-to-nvvm", "convert-nvgpu-to-nvvm,canonicalize,cse"):
        module = parse(plain_text(ONE))
        manager = passmanager.PassManager.parse(f"builtin.module({conversion})", module.context)
        manager.run(module.operation)
        report = pipeline(module, check="warn")
        assert waits(module) == [1, 0]
        # Of what the map describes nobody knows how large its boxes are.
        assert not any(check.unsafe for check in report.of("checks"))
        kept = np.zeros(TRIPS * 64, np.float32)
        tensor = machine.TensorMap(kept, (64,), "none")
        result = machine.run(module, None, [tensor, TRIPS], threads=64, completion="late")
        assert not result.races
        assert np.array_equal(result.arrays[0], ROWS)


STORE = "nvgpu.tma.async.store %o to %out[%row], predicate = %leader"
REFUSED = {
    "no stores": ((re.escape(STORE) + ".*", ""), "0 stores in 1 groups"),
    "two commits": (("(nvvm.cp.async.bulk.commit.group)", r"\1\n\1"), "1 stores in 2 groups"),
    "some in flight already": (("wait_group 0", "wait_group 1"), "leaves groups in flight already"),
    "for what is written": ((r" \{read\}", ""), "for what they write, too"),
    "in another loop": (
        (re.escape(BOTH), f"scf.for %j = %c0 to %c1 step %c1 {{\n{WAIT}\n}}\ngpu.barrier"),
        "it stands inside of 'scf.for'",
    ),
    "now and then": (
        (
            re.escape(BOTH),
            f"%odd = arith.cmpi eq, %i, %c1 : index\nscf.if %odd {{\n{WAIT}\n}}\ngpu.barrier",
        ),
        "under a condition that changes",
    ),
    "used outside": (
        (r"\n  return", "\n  memref.store %zero, %o[%t] : memref<64xf32, WG>\n  return"),
        "'memref.store' uses its tile outside",
    ),
    "read": (
        (re.escape(BOTH), f"{BOTH}\n%seen = memref.load %o[%c0] : memref<64xf32, WG>"),
        "'memref.load' does more to its tile",
    ),
    "never written": ((r"memref.store %value.*", ""), "nothing in the loop writes its tile"),
    "written last": (
        (re.escape(BOTH), f"{BOTH}\nmemref.store %value, %o[%t] : memref<64xf32, WG>"),
        "in another order",
    ),
    "told by a flag": (
        (re.escape(BOTH), f"{BOTH}\nllvm.fence release"),
        "'llvm.fence' tells other threads",
    ),
    "no barrier": ((re.escape(BOTH), WAIT), "no barrier stands between its wait"),
    "elsewhere each time": (
        (r"%o\[%t\]", "%o[%other]"),
        "which elements 'memref.store' writes may change",
    ),
    "in a loop that is no scf.for": (
        (
            r"(?s)(  scf.for .*\}\n)(  return)",
            r"  scf.while : () -> () {\n  scf.condition(%no)\n} do {\n\1  scf.yield\n}\n\2",
        ),
        "cannot be carried through this 'scf.while'",
    ),
}
MORE = """
  %zero = arith.constant 0.0 : f32
  %no = arith.constant false
  scf.for %i"""
OTHER = """
    %turned = arith.addi %t, %i : index
    %other = arith.remui %turned, %c64 : index
    %row"""


def refused_text(name: str, asked: str) -> str:
    (pattern, instead), _ = REFUSED[name]
    text = plain_text(asked).replace("\n  scf.for %i", MORE).replace("\n    %row", OTHER)
    text, times = re.subn(
        pattern, lambda found: found.expand(instead) if "\\" in instead else instead, text
    )
    assert times
    return text


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_an_error_for_a_number_and_a_remark_else(name: str) -> None:
    with pytest.raises(AsyncPipeError, match=re.escape(REFUSED[name][1])) as refused:
        pipeline(parse(refused_text(name, ONE)), check="none")
    assert refused.value.code == "store-not-overlapped"
    module = parse(refused_text(name, "async_pipe.stores_in_flight"))
    report = pipeline(module, check="none")
    assert reported(report) == {"store-not-overlapped"}
    assert str(module) == str(parse(refused_text(name, "")))


def test_the_author_may_vouch_for_what_is_written() -> None:
    """Rows that are turned from iteration to iteration are whole rows all the same."""
    text = refused_text("elsewhere each time", ONE)
    module = parse(text.replace("memref.alloc()", "memref.alloc() {async_pipe.private}"))
    pipeline(module)
    assert waits(module) == [1, 0]


def test_a_wait_for_the_reads_alone_is_what_the_advice_asks_for() -> None:
    text = refused_text("for what is written", ONE)
    with pytest.raises(AsyncPipeError, match=r"add `\{read\}` if only the tile is written anew"):
        pipeline(parse(text))
    module = parse(text.replace("wait_group 0", "wait_group 0 {read}"))
    pipeline(module)
    assert waits(module) == [1, 0]


@pytest.mark.parametrize("given", ["-1 : i64", '"two"'])
def test_what_is_no_number_is_an_error(given: str) -> None:
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(parse(plain_text(f"async_pipe.stores_in_flight = {given}")))
    assert refused.value.code == "bad-annotation"


def test_none_in_flight_can_be_asked_for() -> None:
    text = stores_text().replace(
        "async_pipe.independent,", f"{ONE.replace('1', '0', 1)}, async_pipe.independent,"
    )
    module = parse(text)
    pipeline(module)
    assert waits(module) == [0]
    assert FENCE.split()[0] in str(module)
