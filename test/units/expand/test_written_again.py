"""Which loops become a copy of what an equal one became, and that all become what they would alone.

Covers: expand/write/written_again.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.expand.write import written_again
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session


def loop(n: int, *, upper: str = "%c16", place: str = "", initial: str = "%one") -> str:
    """A loop of two stages with a sum, whose load may have a location of its own."""
    return f"""
  %r{n} = scf.for %i = %c0 to {upper} step %c1 iter_args(%sum = {initial}) -> f32 {{
    %a = memref.load %A[%i] : memref<16xf32> {place}
    %a1 = arith.addf %a, %one : f32 {place}
    memref.store %a1, %B{n}[%c0] : memref<1xf32>
    %b = memref.load %B{n}[%c0] : memref<1xf32>
    %next = arith.addf %sum, %b : f32
    memref.store %b, %C[%i] : memref<16xf32>
    scf.yield %next : f32
  }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0]}}
"""


def function(loops: list[str], uses: tuple[int, ...] = ()) -> str:
    buffers = "\n".join(f"  %B{n} = memref.alloca() : memref<1xf32>" for n in range(len(loops)))
    used = "\n".join(f"  memref.store %r{n}, %E[%c0] : memref<1xf32>" for n in uses)
    return f"""
func.func @f(%A: memref<16xf32> {{llvm.noalias}}, %C: memref<16xf32> {{llvm.noalias}},
             %E: memref<1xf32> {{llvm.noalias}}, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
{buffers}
{"".join(loops)}
{used}
  return
}}"""


def expanded(text: str, *, share: bool) -> str:
    """The module with its places after `async-pipe-expand`, and what it told; then counted."""
    with new_context():
        module = ir.Module.parse(text)
        session = Session()
        for name, given in (("schedule", {}), ("expand", {"share_plans": share})):
            found = passes.find(f"async-pipe-{name}")
            found.run(module.operation, found.options(**given), session)
        assert module.operation.verify()
        said = f"{module.operation.get_asm(enable_debug_info=True)}\n{session.records}"
        for name in ("count-waits", "simplify-waits"):
            found = passes.find(f"async-pipe-{name}")
            found.run(module.operation, found.options(), session)
        return f"{said}\n{module}\n{session.records}\n{session.diagnostics.items}"


def written(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many loops were written on their own; all became what they become without sharing."""
    count = [0]
    write = written_again.write_loop

    def counted(*given: object) -> object:
        count[0] += 1
        return write(*given)

    with monkeypatch.context() as patch:
        patch.setattr(written_again, "write_loop", counted)
        together = expanded(text, share=True)
    assert together == expanded(text, share=False)
    return count[0]


def test_equal_loops_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(function([loop(n) for n in range(5)]), monkeypatch) == 1


def test_loops_that_were_planned_alone_are_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an unknown trip count planning has something to say."""
    assert written(function([loop(n, upper="%n") for n in range(4)]), monkeypatch) == 4


def test_a_loop_may_use_the_result_of_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = [loop(0), *(loop(n, initial=f"%r{n - 1}") for n in range(1, 4))]
    assert written(function(loops, uses=(3,)), monkeypatch) <= 4


def test_loops_with_other_results_used_are_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # 0, 2 and 3 are read, 1 and 4 are not: one of each.
    assert written(function([loop(n) for n in range(5)], uses=(0, 2, 3)), monkeypatch) == 2


def test_loops_whose_ops_share_locations_elsewhere_are_written_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first loop's ops have in one place another one's have in two."""
    places = ['loc("x":1:1)', "", 'loc("x":2:2)', ""]
    assert written(function([loop(n, place=p) for n, p in enumerate(places)]), monkeypatch) == 2


def test_where_copies_keep_their_locations_each_loop_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(written_again, "can_be_placed", lambda: False)
    assert written(function([loop(n) for n in range(3)]), monkeypatch) == 3


def test_nested_loops_become_what_they_become_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    around = "  scf.for %j = %c0 to %c16 step %c1 {{\n{}\n  }}\n"
    text = function([around.format(loop(n) + loop(n + 1)) for n in (0, 2)] + ["", ""])
    assert written(text, monkeypatch) >= 2
