"""In which loops a value varies, asked value by value.

Covers: facts/flow/region_flow.py, bindings/raw_ops.py
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import made_in, operations, walk_named
from mlir_async_pipe.facts.flow.region_flow import Varying

LOOPS = """
llvm.func @f(%n: i64, %p: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %still = llvm.add %n, %n : i64
  llvm.br ^outer(%zero : i64)
^outer(%i: i64):
  %row = llvm.add %i, %still : i64
  %twice = llvm.mul %still, %still : i64
  llvm.br ^inner(%zero : i64)
^inner(%j: i64):
  %here = llvm.add %row, %twice : i64
  %both = llvm.add %here, %j : i64
  %read = llvm.load %p : !llvm.ptr -> i64
  %next = llvm.add %j, %n : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^inner(%next : i64), ^end
^end:
  %on = llvm.add %i, %n : i64
  %again = llvm.icmp "slt" %on, %n : i64
  llvm.cond_br %again, ^outer(%on : i64), ^out
^out:
  llvm.return
}
"""
# In how many loops each of the inner block's values varies: %here in the outer one alone.
DEPTHS = {"here": 1, "both": 2, "read": 2, "next": 2, "more": 2}


def test_a_value_varies_where_something_that_it_is_made_of_does() -> None:
    with new_context():
        module = ir.Module.parse(LOOPS)
        (function,) = walk_named(module, "llvm.func".__eq__)
        entry, outer, inner, *_ = function.regions[0].blocks
        varying = Varying(function.regions[0])
        assert [len(varying.nest(block)) for block in (entry, outer, inner)] == [0, 1, 2]
        made = [op.results[0] for op in operations(inner)[:-1]]
        assert [varying.depth(value, inner) for value in made] == list(DEPTHS.values())
        row, twice = (op.results[0] for op in operations(outer)[:2])
        assert (varying.depth(row, outer), varying.depth(twice, outer)) == (1, 0)
        assert varying.depth(inner.arguments[0], outer) == 1
        assert varying.depth(operations(entry)[1].results[0], inner) == 0


def test_a_long_chain_is_followed_without_recursion() -> None:
    chain = "%s0 = llvm.add %j, %n : i64\n" + "".join(
        f"  %s{number + 1} = llvm.add %s{number}, %n : i64\n" for number in range(5000)
    )
    with new_context():
        module = ir.Module.parse(LOOPS.replace("%next = llvm.add %j, %n : i64", chain + "%next = llvm.add %s5000, %n : i64"))  # fmt: skip
        (function,) = walk_named(module, "llvm.func".__eq__)
        inner = function.regions[0].blocks[2]
        last = operations(inner)[-1].operands[1]
        assert Varying(function.regions[0]).depth(last, inner) == 2


def test_ops_are_found_by_name_and_where_values_are_made() -> None:
    with new_context():
        module = ir.Module.parse(LOOPS)
        asked: list[str] = []

        def wanted(name: str) -> bool:
            asked.append(name)
            return name in ("llvm.func", "llvm.load")

        function, load = walk_named(module, wanted)
        assert (function.name, load.name) == ("llvm.func", "llvm.load")
        assert len(asked) == len(set(asked)) and "llvm.add" in asked
        assert walk_named(module, wanted, inside=False) == [function]
        assert walk_named(module, "llvm.fadd".__eq__) == []
        inner = function.regions[0].blocks[2]
        assert made_in(load.results[0]) == (load, inner)
        assert made_in(inner.arguments[0]) == (None, inner)
