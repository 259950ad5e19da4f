"""Copies of a wave share addresses in LDS, and no copy moves: neither where it reads nor writes.

Covers: lowering/rocdl/copy_addresses.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import defining_op, functions, integer_attribute, users, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.rocdl.copy_addresses import share_lds_addresses, split_for_rocdl
from mlir_async_pipe.lowering.split_addresses import AddressParts

COPY = "rocdl.load.async.to.lds %{0}, %{1}, 4, {2}, 0 : !llvm.ptr<1>, !llvm.ptr<3>"


def copy(number: int, moves: str, constant: int, offset: int = 0) -> str:
    """A copy from %a + number * %row to %tile + %wave + moves + constant."""
    return f"""
    %n{number} = llvm.mlir.constant({number} : i64) : i64
    %c{number} = llvm.mlir.constant({constant} : i64) : i64
    %rows{number} = llvm.mul %row, %n{number} : i64
    %from{number} = llvm.add %rows{number}, %k : i64
    %p{number} = llvm.getelementptr %a[%from{number}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f16
    %still{number} = llvm.add %wave, %c{number} : i64
    %to{number} = llvm.add %still{number}, {moves} : i64
    %q{number} = llvm.getelementptr %tile[%to{number}] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i8
    {COPY.format(f"p{number}", f"q{number}", offset)}"""


def kernel(body: str, before: str = "") -> str:
    """A loop over %k with the counter %slot; `before` stands before it."""
    return f"""
llvm.func @f(%tile: !llvm.ptr<3>, %a: !llvm.ptr<1>, %row: i64, %wave: i64, %n: i64) {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %step = llvm.mlir.constant(64 : i64) : i64
    %large = llvm.mlir.constant(8192 : i64) : i64
    {before}
    llvm.br ^loop(%zero : i64)
  ^loop(%k: i64):
    %slot = llvm.mul %k, %large : i64
    {body}
    %next = llvm.add %k, %step : i64
    %more = llvm.icmp "slt" %next, %n : i64
    llvm.cond_br %more, ^loop(%next : i64), ^exit
  ^exit:
    llvm.return
}}"""


def lds_copies(module):
    return [op for op in walk(module) if op.name == "rocdl.load.async.to.lds"]


def offsets(module) -> list[int | None]:
    return [integer_attribute(op, "offset") for op in lds_copies(module)]


def hidden(module):
    return [op for op in walk(module) if op.name == "llvm.inline_asm"]


def places(module) -> list[tuple[object, ...]]:
    """Where each copy reads and writes: the forms of both addresses, with what is hidden seen."""
    for op in hidden(module):
        first_lane = defining_op(op.operands[0])
        assert first_lane.name == "rocdl.readfirstlane"
        narrow = defining_op(first_lane.operands[0])
        (pointer,) = users(op.results[0])
        pointer.operands[1] = narrow.operands[0]
    parts = AddressParts()
    found = []
    for op in lds_copies(module):
        constant = integer_attribute(op, "offset") or 0
        both = [parts.address(operand) for operand in op.operands]
        found.append(tuple((a.base, a.offset.terms, a.offset.constant + constant) for a in both))
    return found


def shared(text: str, largest: int = 4095):
    """The module before and after, in one context, and where its copies went before."""
    module = ir.Module.parse(text)
    (function,) = functions(module)
    before = places(module)
    share_lds_addresses(function, largest)
    assert module.operation.verify()
    return module, before


# In the same slot, at constants that one address serves, or two.
NEAR = [copy(1, "%slot", 0), copy(2, "%slot", 1024), copy(3, "%slot", 4095)]
FAR = [copy(4, "%slot", 4096), copy(5, "%slot", 8000)]


@pytest.mark.parametrize(
    ("copies", "largest", "wanted"),
    [
        (NEAR, 4095, [0, 1024, 4095]),
        (NEAR + FAR, 4095, [0, 1024, 4095, 0, 3904]),
        (NEAR, 2047, [0, 1024, 0]),
        (NEAR, 0, [0, 0, 0]),
        # The lowest address is not the first one.
        (FAR[::-1] + NEAR[:1], 4095, [3904, 0, 0]),
        # Two slots that nobody knows the distance of.
        ([copy(1, "%slot", 0), copy(2, "%k", 16)], 4095, [0, 0]),
    ],
)
def test_constants_stand_in_the_copies_and_no_copy_moves(copies, largest, wanted) -> None:
    with new_context():
        module, before = shared(kernel("".join(copies)), largest)
        assert offsets(module) == wanted
        assert len(hidden(module)) == len([n for n in wanted if n == 0])
        assert places(module) == before


def test_what_stands_still_is_hidden_before_the_loop() -> None:
    with new_context():
        module, _ = shared(kernel("".join(NEAR)))
        (op,) = hidden(module)
        assert "llvm.br" in [other.operation.name for other in op.block.operations]
        assert 'constraints = "=s,0"' in op.get_asm(print_generic_op_form=True)


def test_a_copy_that_has_used_its_constant_stays() -> None:
    with new_context():
        text = kernel(copy(1, "%slot", 0, offset=16) + copy(2, "%slot", 64))
        module, before = shared(text)
        assert offsets(module) == [16, 0]
        assert places(module) == before


def test_what_is_known_only_in_the_loop_is_not_hidden() -> None:
    still = "%odd = llvm.xor %wave, %step : i64"
    late = copy(1, "%slot", 0).replace("llvm.add %wave,", "llvm.add %odd,")
    with new_context():
        module, before = shared(kernel(still + late))
        assert not hidden(module)
        assert places(module) == before
        module, _ = shared(kernel(late, before=still))
        assert len(hidden(module)) == 1


def test_what_does_not_move_in_a_loop_takes_constants_alone() -> None:
    with new_context():
        module, before = shared(kernel(copy(1, "%zero", 0) + copy(2, "%zero", 64)))
        assert offsets(module) == [0, 64]
        assert not hidden(module)
        assert places(module) == before


def test_copies_of_two_blocks_share_nothing() -> None:
    with new_context():
        early = copy(1, "%zero", 0).replace(", %k ", ", %row ")
        module, before = shared(kernel(copy(2, "%slot", 64), before=early))
        assert offsets(module) == [0, 0]
        assert places(module) == before


@pytest.mark.parametrize("chip", [name for name, c in CHIPS.items() if c.lowering == "rocdl"])
def test_a_chip_gets_constants_that_fit_into_its_instructions(chip) -> None:
    largest = {"gfx90a": 4095, "gfx942": 4095, "gfx950": 4095, "gfx1030": 2047}.get(chip, 0)
    with new_context():
        module = ir.Module.parse(kernel("".join(NEAR + FAR)))
        split_for_rocdl(module.operation, chip)
        assert module.operation.verify()
        assert max(number or 0 for number in offsets(module)) == {4095: 4095, 2047: 1024}.get(
            largest, 0
        )
