"""Counts of async_pipe.wait_queue that are operands: a switch over the constants they can be.

Covers: waits/dynamic.py
"""

import re

import pytest

from helpers.check_harness import check_text, machine_races
from helpers.counted_text import expand, function, run
from mlir_async_pipe.session.diagnostics import CountError

WAIT = '"async_pipe.wait_queue"(%k) {queue = 0 : i64} : (index) -> ()'


def counts(body: str, options: str = "") -> list[int]:
    """The counts of the waits after the pass, those of cases first."""
    text = run(function(f"{body}\n{WAIT}\nreturn"), options)[1]
    assert 'wait_queue"(%' not in text
    return [int(count) for count in re.findall(r"count = (\d+)", text)]


NUMBERS = {
    "constant": ("%k = arith.constant 2 : index", [2]),
    "select": ("%k = arith.select %c, %c1, %c3 : index", [1, 3, 0]),
    "select of equal constants": ("%k = arith.select %c, %c2, %c2 : index", [2]),
    "branch": (
        "%k = scf.if %c -> index {\nscf.yield %c1 : index\n} else {\nscf.yield %c0 : index\n}",
        [1, 0],
    ),
    "index_switch": (
        "%k = scf.index_switch %n -> index\ncase 1 {\nscf.yield %c2 : index\n}\n"
        "default {\nscf.yield %c3 : index\n}",
        [2, 3, 0],
    ),
    "loop": (
        "%k = scf.for %i = %c0 to %n step %c1 iter_args(%x = %c1) -> index {\n"
        "%y = arith.select %c, %x, %c2 : index\nscf.yield %y : index\n}",
        [1, 2, 0],
    ),
    "while": (
        "%k = scf.while (%x = %c1) : (index) -> index {\n"
        "scf.condition(%c) %x : index\n} do {\n^bb0(%y: index):\nscf.yield %c3 : index\n}",
        [1, 3, 0],
    ),
    "blocks": (
        "cf.cond_br %c, ^end(%c1 : index), ^other\n^other:\ncf.br ^end(%c2 : index)\n"
        "^end(%k: index):",
        [1, 2, 0],
    ),
    "mask": ("%k = arith.andi %n, %c3 : index", [1, 2, 3, 0]),
    "anything": ("%k = arith.addi %n, %c1 : index", [0]),
    "below 0": ("%m = arith.constant -3 : index\n%k = arith.select %c, %m, %c1 : index", [1, 0]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_count_becomes_a_wait_for_each_constant_that_it_can_be(name):
    body, expected = NUMBERS[name]
    assert counts(body) == expected


def test_counts_above_what_the_target_expresses_are_clamped():
    body = "%m = arith.constant 100 : index\n%k = arith.select %c, %m, %c1 : index"
    assert counts(body, "chip=sm_80") == [1, 63, 0]


def test_unknown_count_waits_for_all_and_says_so():
    report = run(function(f"%k = arith.addi %n, %c1 : index\n{WAIT}\nreturn"))[0]
    assert [item.code for item in report.diagnostics] == ["dynamic-count"]


def test_count_on_an_unknown_queue_waits_for_all():
    body = '"async_pipe.wait_queue"(%n, %c1) : (index, index) -> ()\nreturn'
    report, text = run(function(body))
    assert '"async_pipe.wait_queue"(%arg0) {count = 0 : i64} : (index) -> ()' in text
    assert [item.code for item in report.diagnostics] == ["dynamic-queue"]


def test_given_count_of_an_unknown_queue_is_no_operand():
    body = '"async_pipe.wait_queue"(%n) {count = 1 : i64} : (index) -> ()\nreturn'
    assert "(%arg0) {count = 1 : i64} : (index)" in run(function(body))[1]


@pytest.mark.parametrize(
    ("operands", "types", "code"),
    [("%a, %n", "TOK, index", "tokens-and-count"), ("%c", "i1", "not-a-token")],
)
def test_operands_that_mean_nothing_are_refused(operands, types, code):
    body = f"""
      %a = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> TOK
      "async_pipe.wait_queue"({operands}) {{queue = 0 : i64}} : ({types}) -> ()
      return
    """
    with pytest.raises(CountError) as caught:
        run(function(body))
    assert caught.value.code == code


def test_wait_with_an_operand_bounds_nothing_for_those_after_it():
    """simplify-waits may not take an unknown count for 0."""
    text = expand("""
      gpu.module @m {
        gpu.func @k(%n: index) kernel {
          %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
          "async_pipe.wait_queue"(%n) {queue = 0 : i64} : (index) -> ()
          "async_pipe.wait_queue"() {queue = 0 : i64, count = 0 : i64} : () -> ()
          gpu.return
        }
      }
    """)
    assert run(text, name="simplify-waits")[1].count("wait_queue") == 2


SOURCE = "memref<16x1xf32>"
ROW = "memref<16x1xf32, 3>"


def two_copies(wait: str) -> str:
    copies = "".join(
        f"%p{r} = nvgpu.device_async_copy %A[%c{r}, %c0], %s[%c{r}, %c0], 1 : {SOURCE} to {ROW}\n"
        f'%g{r} = "async_pipe.commit_queue"() {{queue = 0 : i64}} : () -> TOK\n'
        for r in (0, 1)
    )
    return expand(f"""
      func.func @k(%A: {SOURCE} {{llvm.noalias}}, %B: {SOURCE} {{llvm.noalias}}, %n: index, %c: i1)
          attributes {{gpu.known_block_size = array<i32: 1, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %s = memref.alloc() : {ROW}
        {copies}
        {wait}
        %v = memref.load %s[%c0, %c0] : {ROW}
        memref.store %v, %B[%c0, %c0] : {SOURCE}
        "async_pipe.wait_queue"() {{queue = 0 : i64, count = 0 : i64}} : () -> ()
        return
      }}
    """)


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        ("%k = arith.constant 1 : index", "safe"),
        ("%k = arith.select %c, %c0, %c1 : index", "safe"),
        ("%k = arith.constant 2 : index", "unsafe"),
        ("%k = arith.select %c, %c1, %c2 : index", "unsafe"),
        ("%k = arith.addi %n, %c0 : index", "unknown"),
    ],
)
def test_machine_and_checker_read_the_number(number, verdict):
    """As it is, and after the pass, where an unknown count is for all groups."""
    text = two_copies(f"{number}\n{WAIT}")
    races = machine_races(text, "nvvm:sm_80")
    assert bool(races) == (verdict != "safe")
    checked = check_text(text, "nvvm:sm_80")
    if verdict == "unsafe":
        assert checked.unsafe or checked.unknown
    else:
        assert not checked.unsafe
        assert bool(checked.unknown) <= (verdict == "unknown" or "select" in number)
    counted = run(text, "chip=sm_80")[1]
    assert bool(machine_races(counted, "nvvm:sm_80")) == (verdict == "unsafe")
    assert bool(check_text(counted, "nvvm:sm_80").unsafe) == (verdict == "unsafe")
    assert not check_text(counted, "nvvm:sm_80").unknown
