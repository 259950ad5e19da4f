"""A ring whose counter takes another route round its loop: handed on by block arguments it is the same
counter, and what cannot be followed is no error.

Covers: checker/kernel_flow.py, checker/state.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text

TARGET = "nvvm:sm_80"
TILES = "memref<16x32xf32>"
RING = "memref<4x32xf32, 3>"
KERNEL = f"""
gpu.module @m {{
  gpu.func @k(%A: {TILES} {{llvm.noalias}}, %C: {TILES} {{llvm.noalias}}, %n: index, %p: i1)
      workgroup(%s: {RING}) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %t = gpu.thread_id x
    %first = nvgpu.device_async_copy %A[%c0, %t], %s[%c0, %t], 1 : {TILES} to {RING}
    nvvm.cp.async.commit.group
    LOOP
    nvvm.cp.async.wait.group 0
    gpu.return
  }}
}}
"""
# The copy of the next tile, and the use of this one, of a ring of four rows.
BODY = f"""
    %read = arith.andi %i, %c3 : index
    %next = arith.addi %i, %c1 : index
    %write = arith.andi %next, %c3 : index
    %copy = nvgpu.device_async_copy %A[%next, %t], %s[%write, %t], 1 : {TILES} to {RING}
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group GROUPS
    %x = memref.load %s[%read, %t] : {RING}
    memref.store %x, %C[%i, %t] : {TILES}
    %more = arith.cmpi slt, %next, %n : index"""
HANDED_ON = {
    "do-while": f"""
    %end = scf.while (%i = %c0) : (index) -> index {{{BODY}
      scf.condition(%more) %next : index
    }} do {{
    ^bb0(%same: index):
      scf.yield %same : index
    }}""",
    "block": f"""
    cf.br ^loop(%c0 : index)
  ^loop(%i: index):{BODY}
    cf.cond_br %more, ^between(%next : index), ^end
  ^between(%same: index):
    cf.br ^loop(%same : index)
  ^end:""",
}
# Counters that the checker does not follow: no execution is known in which two copies meet.
UNFOLLOWED = {
    "selected": "arith.select %p, %next, %next : index",
    "the larger": "arith.maxui %next, %i : index",
}


def _checked(loop: str, groups: int):
    text = KERNEL.replace("LOOP", loop).replace("GROUPS", str(groups))
    return check_text(text, target=TARGET)


@pytest.mark.parametrize("form", HANDED_ON)
def test_a_counter_that_block_arguments_hand_on_is_followed(form: str) -> None:
    checked = _checked(HANDED_ON[form], 1)
    assert (checked.unsafe, checked.unknown) == (set(), set())


@pytest.mark.parametrize("form", HANDED_ON)
def test_a_wait_that_allows_one_group_more_is_found(form: str) -> None:
    assert {code for code, _ in _checked(HANDED_ON[form], 2).unsafe} == {"read-in-flight"}


@pytest.mark.parametrize("form", UNFOLLOWED)
def test_a_counter_that_is_not_followed_is_no_error(form: str) -> None:
    loop = HANDED_ON["block"].replace(
        "cf.br ^loop(%same", f"%new = {UNFOLLOWED[form]}\n    cf.br ^loop(%new"
    )
    checked = _checked(loop, 1)
    assert not checked.unsafe
    assert checked.unknown
