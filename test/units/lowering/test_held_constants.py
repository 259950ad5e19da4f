"""Constants of loops that stay in registers, since an instruction has room for one only.

Covers: lowering/nvvm/opaque_assembly.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.lowering.nvvm.opaque_assembly import FEWEST, hold_constants

MASK, MAGIC = 0x000F000F, 0x64006400


def function(
    times: int, masks: tuple[int, ...] = (MASK,), magic: int = MAGIC, kind: str = "i32"
) -> str:
    """A loop that takes `times` numbers apart, by one mask after the other."""
    used = [masks[n % len(masks)] for n in range(times)]
    lines = [
        f"%m{n} = llvm.mlir.constant({mask} : {kind}) : {kind}\n"
        f"%a{n} = llvm.and %w, %m{n} : {kind}\n"
        f"%b{n} = llvm.or %a{n}, %magic : {kind}\n"
        f"llvm.store volatile %b{n}, %p : {kind}, !llvm.ptr"
        for n, mask in enumerate(used)
    ]
    return f"""
llvm.func @f(%p : !llvm.ptr, %go : i1) {{
  %magic = llvm.mlir.constant({magic} : {kind}) : {kind}
  llvm.br ^loop
^loop:
  %w = llvm.load %p : !llvm.ptr -> {kind}
  {"".join(line + chr(10) for line in lines)}
  llvm.cond_br %go, ^loop, ^end
^end:
  llvm.return
}}"""


def held(text: str) -> tuple[list[str], str]:
    """The assembly that holds constants, and the function as it became."""
    with new_context():
        module = ir.Module.parse(text)
        hold_constants(module.operation)
        assert module.operation.verify()
        found = [op for op in walk(module) if op.name == "llvm.inline_asm"]
        asm = [ir.StringAttr(op.attributes["asm_string"]).value for op in found]
        assert all(op.parent == found[0].parent for op in found)
        return asm, str(module)


def test_a_constant_of_many_pairs_is_the_larger_one_of_a_lane_and_itself() -> None:
    (asm,), text = held(function(FEWEST))
    assert f"mov.u32 %lane, %laneid; max.u32 $0, %lane, {MASK};" in asm
    assert text.index("inline_asm") < text.index("^bb1")
    assert text.count("llvm.and %") == FEWEST


def test_what_most_pairs_share_is_held() -> None:
    """Two masks and one number that is put beside both: a register for the number serves all."""
    (asm,), text = held(function(2 * FEWEST, (MASK, MASK << 4)))
    assert f" {MAGIC};" in asm
    assert text.count(f"llvm.mlir.constant({MAGIC} : i32)") <= 1


@pytest.mark.parametrize(
    "text",
    [
        function(FEWEST - 1),
        function(FEWEST, magic=MASK),
        function(FEWEST, kind="i64"),
        function(FEWEST).replace("llvm.cond_br %go, ^loop, ^end", "llvm.br ^end"),
        function(FEWEST).replace("llvm.or", "llvm.add"),
    ],
    ids=["too few", "one constant", "64 bits", "no loop", "no bitwise pair"],
)
def test_what_does_not_pay_stays(text: str) -> None:
    assert held(text) == ([], str_of(text))


def str_of(text: str) -> str:
    with new_context():
        return str(ir.Module.parse(text))


def test_a_number_that_a_lane_may_have_is_not_held() -> None:
    """The larger one of 15 and lane 31 is 31."""
    (asm,), _ = held(function(FEWEST, masks=(15,)))
    assert f" {MAGIC};" in asm
    assert held(function(FEWEST, masks=(15,), magic=16))[0] == []
