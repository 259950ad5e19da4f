"""Which loops of a module are planned once, and which are not.

Covers: expand/equal/shared_plans.py, expand/equal/loop_table.py, expand/equal/asked.py
"""

from __future__ import annotations

from typing import Any

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.dependence.surroundings import Surroundings
from mlir_async_pipe.expand.equal.asked import AskedSurroundings
from mlir_async_pipe.expand.equal.shared_plans import SharedPlans
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

WORKGROUP = "memref<64xf32, #gpu.address_space<workgroup>>"


def loop(buffer: int, step: str = "%c64", one: str = "%one", stages: int = 3) -> str:
    return f"""
    scf.for %i = %c0 to %c1024 step {step} {{
      %at = arith.addi %i, %x : index
      %v = memref.load %A[%at] : memref<4096xf32>
      memref.store %v, %S{buffer}[%x] : {WORKGROUP}
      gpu.barrier
      %w = memref.load %S{buffer}[%y] : {WORKGROUP}
      %u = arith.addf %w, {one} : f32
      memref.store %u, %C[%at] : memref<4096xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = {stages} : i64}}"""


def kernel(body: str, buffers: int = 6) -> str:
    allocated = "\n".join(f"%S{n} = memref.alloc() : {WORKGROUP}" for n in range(buffers))
    return f"""
func.func @f(%A: memref<4096xf32> {{llvm.noalias}}, %C: memref<4096xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c1024 = arith.constant 1024 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %x = gpu.thread_id x
  %last = arith.constant 63 : index
  %y = arith.subi %last, %x : index
  {allocated}
  {body}
  return
}}"""


def expanded(text: str, share: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """The module after `async-pipe-expand`, and how many plans were shared."""
    planned, asked = [0], [0]
    alone, shared = SharedPlans._planned, SharedPlans.plan_of

    def count_plan(self: SharedPlans, *rest: Any) -> Any:
        planned[0] += 1
        return alone(self, *rest)

    def count_all(self: SharedPlans, each: Any) -> Any:
        asked[0] += each in self.compared
        return shared(self, each)

    with monkeypatch.context() as patch, new_context():
        patch.setattr(SharedPlans, "_planned", count_plan)
        patch.setattr(SharedPlans, "plan_of", count_all)
        module = ir.Module.parse(text)
        session = Session()
        for name, given in (("schedule", {}), ("expand", {"share_plans": share})):
            found = passes.find(f"async-pipe-{name}")
            found.run(module.operation, found.options(**given), session)
        return str(module), asked[0] - planned[0]


def check(body: str, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many loops have the plan of another, and the module is the one without that."""
    text, count = expanded(kernel(body), True, monkeypatch)
    assert (text, 0) == expanded(kernel(body), False, monkeypatch)
    assert count == shared


def test_loops_with_buffers_of_their_own_share_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first has no barrier to stand before, the last none to stand after.
    check("".join(loop(n) for n in range(6)), 3, monkeypatch)


def test_loops_of_one_buffer_share_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    check(loop(0) * 6, 3, monkeypatch)


@pytest.mark.parametrize(
    "other",
    [
        loop(1, step="%c128"),
        loop(1, one="%two"),
        loop(1, stages=2),
        loop(1).replace("%S1[%y]", "%S1[%x]"),
        loop(1).replace("%C[%at]", "%A[%at]"),
        loop(1).replace("to %c1024", "to %c128"),
    ],
    ids=["step", "constant", "stages", "subscript", "buffer", "bound"],
)
def test_loops_that_differ_are_planned_each(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(loop(0) + other, 0, monkeypatch)


def test_a_loop_of_which_something_is_read_behind_is_planned_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = f"""
    %r = memref.load %S2[%y] : {WORKGROUP}
    memref.store %r, %C[%x] : memref<4096xf32>"""
    # The first has nothing before it, the third's buffer is read: the others are alike.
    check("".join(loop(n) for n in range(5)) + read, 2, monkeypatch)


def test_loops_of_other_blocks_are_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    around = "".join(
        f"scf.for %n{n} = %c0 to %c64 step %c64 {{ {loop(n)} \n scf.yield }}\n" for n in range(2)
    )
    check(around, 0, monkeypatch)


def test_a_loop_of_which_something_is_told_is_planned_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = "".join(loop(n, stages=4).replace("%c1024", "%c128") for n in range(4))
    check(short, 0, monkeypatch)


def test_every_question_to_the_surroundings_is_noted() -> None:
    asked = {name for name in vars(Surroundings) if not name.startswith("_")}
    assert len(asked) >= 8
    assert asked <= set(vars(AskedSurroundings))
