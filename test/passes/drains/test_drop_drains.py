"""Waits after a loop go where a later wait retires what the loop left in flight.

Covers: pipeliner/ask_checker/needed_barriers.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.row_programs import THREADS, counts, kernel, pipelined, proven, wrong_runs
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


FILLS = """
  %C = memref.alloc() : memref<8x4xf32, #wg>
  scf.for %i = %c0 to %c5 step %c1 {
    %tk = nvgpu.device_async_copy %A[%i, %t], %C[%i, %t], 1 : memref<32x4xf32> to memref<8x4xf32, #wg>
    %x = memref.load %A[%i, %t] : memref<32x4xf32>
    memref.store %x, %O[%i, %t] : memref<32x4xf32>
  } {async_pipe.stage = [0, 1, 1]}
"""
USES = """
  scf.for %i = %c0 to %c5 step %c1 {
    %row = arith.addi %i, %c16 : index
    %tk = nvgpu.device_async_copy %A[%row, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    scf.execute_region no_inline {
      %v = memref.load %B[%t] : memref<4xf32, #wg>
      %u = memref.load %C[%i, %t] : memref<8x4xf32, #wg>
      %w = arith.addf %u, %v : f32
      memref.store %w, %O[%row, %t] : memref<32x4xf32>
      scf.yield
    }
  } {async_pipe.num_stages = 3 : i64}
"""
# What the first loop leaves in flight, read before the second one's first wait.
AT_ONCE = "%early = memref.load %C[%c3, %t] : memref<8x4xf32, #wg>\n" + (
    "memref.store %early, %O[%c5, %t] : memref<32x4xf32>\n"
)
DRAINED = {
    # Of what loop 1 left in flight the first wait of loop 2 retires everything.
    "left to the next loop": (FILLS + USES, []),
    "read at once": (FILLS + AT_ONCE + USES, [0]),
    "no loop follows": (FILLS, [0]),
    "read in the next loop's first stage": (
        FILLS
        + USES.replace(
            "    nvgpu.device_async_wait %g\n",
            "    nvgpu.device_async_wait %g\n"
            "    %z = memref.load %C[%i, %t] : memref<8x4xf32, #wg>\n"
            "    memref.store %z, %O[%i, %t] : memref<32x4xf32>\n",
        ).replace("async_pipe.num_stages = 3 : i64", "async_pipe.stage = [0, 0, 0, 2]"),
        [0],
    ),
}


def as_kernel(text: str) -> str:
    return (
        text.replace("func.func @f", "gpu.module @k {\ngpu.func @f")
        .replace("%m: index) attributes", "%m: index) kernel attributes")
        .replace("  return\n}", "  gpu.return\n}\n}")
    )


def waits_between_loops(module: object) -> list[int | None]:
    """The counts of the waits after the first loop and before the next copy."""
    found: list[int | None] = []
    ops = [op for op in walk(module) if op.parent and op.parent.operation.name == "gpu.func"]
    behind = False
    for op in ops:
        if behind and op.name == "nvgpu.device_async_copy":
            break
        if behind and op.name == "nvgpu.device_async_wait":
            found.append(integer_attribute(op, "numGroups"))
        behind = behind or op.name == "scf.for"
    return found


@pytest.mark.parametrize("case", DRAINED)
def test_what_a_loop_leaves_in_flight_is_waited_for_only_where_needed(case: str) -> None:
    body, expected = DRAINED[case]
    text = as_kernel(kernel(body))
    module, session = pipelined(text)
    assert waits_between_loops(module) == expected
    assert "async_pipe.drain" not in str(module)
    assert len(session.report().of("drains")) == (1 if expected == [] else 0)
    assert proven(session)
    assert wrong_runs(text, module, [(0, 0)]) == []


def test_what_a_loop_that_stays_as_it_is_leaves_in_flight_is_not_drained() -> None:
    body, _ = DRAINED["read in the next loop's first stage"]
    short = body.replace("%c0 to %c5", "%c0 to %c1", 1).replace("[0, 1, 1]", "[0, 2, 2]", 1)
    text = as_kernel(kernel(short.replace("load %C[%i, %t]", "load %C[%c0, %t]")))
    module, session = pipelined(text)
    assert [each.code for each in session.diagnostics.items if each.code == "short-trip"]
    assert wrong_runs(text, module, [(0, 0)]) == []
    assert proven(session)


def in_launch(text: str) -> str:
    sizes = ", ".join(f"%s{n} = %one" for n in "xyz")
    threads = sizes.replace("%s", "%u").replace("%one", "%threads", 1)
    return text.replace(
        ") attributes {known_block_size = array<i32: 4, 1, 1>} {",
        f""") {{
  %one = arith.constant 1 : index
  %threads = arith.constant {THREADS} : index
  gpu.launch blocks(%bx, %by, %bz) in ({sizes}) threads(%tx, %ty, %tz) in ({threads}) {{""",
    ).replace("  return\n}", "  gpu.terminator\n}\n  return\n}")


@pytest.mark.parametrize("case", ["left to the next loop", "no loop follows"])
def test_a_launch_is_a_kernel(case: str) -> None:
    body, expected = DRAINED[case]
    _, session = pipelined(in_launch(kernel(body)))
    assert len(session.report().of("drains")) == (1 if expected == [] else 0)
    assert proven(session)


def test_outside_of_kernels_every_loop_waits_for_its_groups() -> None:
    text = kernel(FILLS + USES)
    module, session = pipelined(text)
    assert session.report().of("drains") == ()
    assert 0 in counts(module)
    assert wrong_runs(text, module, [(0, 0)]) == []


RELEASES = {
    "a fence": "llvm.fence release",
    "an atomic": "%one_ = arith.constant 1 : i32\n"
    "  %flag = memref.alloca() : memref<1xi32>\n"
    "  %was = memref.atomic_rmw addi %one_, %flag[%c0] : (i32, memref<1xi32>) -> i32",
    "assembly": 'llvm.inline_asm has_side_effects "membar.gl;", "" : () -> ()',
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_what_a_loop_leaves_in_flight_is_waited_for_before_a_flag_tells_of_it(release: str) -> None:
    """Without the release the wait goes ("left to the next loop")."""
    module, session = pipelined(as_kernel(kernel(FILLS + release + "\n" + USES)))
    assert waits_between_loops(module) == [0]
    assert session.report().of("drains") == ()


def test_waits_for_groups_that_never_were_need_not_retire_those_of_the_prologue() -> None:
    body, _ = DRAINED["read in the next loop's first stage"]
    wait = "    nvgpu.device_async_wait %g\n"
    text = as_kernel(kernel(body.replace(wait, f"{wait}    gpu.barrier\n")))
    module, session = pipelined(text)
    loops = [op for op in walk(module) if op.name == "scf.for"]
    # Of three iterations back, which the first one has not: two younger groups stay in flight.
    assert counts(loops[-1]) == [2, 2]
    assert proven(session)
    assert wrong_runs(text, module, [(0, 0)]) == []
