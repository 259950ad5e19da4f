"""Special functions that stay beside the products in flight, before the wait that ends these.

Covers: lowering/nvvm/opaque_assembly.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, walk
from mlir_async_pipe.lowering.nvvm.opaque_assembly import MOST_EVENTS, keep_beside_products

COMMIT = "nvvm.wgmma.commit.group.sync.aligned"
EX2 = "%w{n} = nvvm.ex2 %x {{ftz = true}} : f32"


def wait(count: int) -> str:
    return f"nvvm.wgmma.wait.group.sync.aligned {count}"


def summed(terms: int, first: int = 0) -> list[str]:
    """So many exponentials, and %s: their sum."""
    lines = [EX2.format(n=first)]
    total = f"%w{first}"
    for n in range(first + 1, first + terms):
        lines += [EX2.format(n=n), f"%s{n} = arith.addf {total}, %w{n} : f32"]
        total = f"%s{n}"
    return lines


def stored(terms: int) -> list[str]:
    return [f"memref.store %w{n}, %m[%c0] : memref<4xf32>" for n in range(terms)]


def named(lines: list[str]) -> list[str]:
    """What is named before the last wait, as text of the ops that give it."""
    body = "\n  ".join(lines)
    text = f"""
gpu.module @m {{
gpu.func @f(%x : f32, %m : memref<4xf32>) {{
  %c0 = arith.constant 0 : index
  {body}
  gpu.return
}}
}}"""
    with new_context():
        module = ir.Module.parse(text)
        keep_beside_products(module.operation)
        assert module.operation.verify()
        asm = [op for op in walk(module) if op.name == "llvm.inline_asm"]
        if not asm:
            return []
        (one,) = asm
        ops = operations(one.block)
        assert ops[ops.index(one) + 1].name == "nvvm.wgmma.wait.group.sync.aligned"
        found = ir.StringAttr(one.attributes["asm_string"]).value
        assert found.count("setp.eq") == len(one.operands)
        assert found.endswith("@p pmevent 0; }")
        sources = [value.owner.operation.operands[0].owner.operation for value in one.operands]
        return [str(op).strip() for op in sources]


@pytest.mark.parametrize(
    ("lines", "sums"),
    [
        ([COMMIT, *summed(3), wait(0)], 1),
        ([COMMIT, COMMIT, wait(1), *summed(3), wait(0)], 1),
        ([COMMIT, COMMIT, wait(1), *summed(3), *summed(2, first=3), wait(0)], 2),
        # Two of five are stored: the rest would go.
        ([COMMIT, *summed(5), *stored(2), wait(0)], 1),
        ([COMMIT, *(EX2.format(n=n) for n in range(MOST_EVENTS + 1)), wait(0)], MOST_EVENTS),
    ],
)
def test_last_values_of_all_special_functions_are_named(lines: list[str], sums: int) -> None:
    found = named(lines)
    assert len(found) == sums
    if sums < MOST_EVENTS:
        assert all("arith.addf" in text for text in found)


@pytest.mark.parametrize(
    "lines",
    [
        [*summed(3), wait(0)],
        [COMMIT, wait(0), *summed(3), wait(0)],
        [COMMIT, *summed(3), wait(1)],
        [COMMIT, wait(0), *summed(3)],
        [COMMIT, "%y = arith.addf %x, %x : f32", wait(0)],
        [COMMIT, *summed(3), *stored(3), wait(0)],
    ],
    ids=[
        "nothing in flight",
        "all waited for before",
        "the wait ends nothing",
        "no wait",
        "no special function",
        "stored before the wait",
    ],
)
def test_nothing_is_named_where_nothing_is_gained(lines: list[str]) -> None:
    assert named(lines) == []
