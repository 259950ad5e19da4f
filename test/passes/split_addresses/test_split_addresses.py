"""Addresses in random loops are the same numbers after `async-pipe-split-addresses` as before.

Covers: lowering/split_addresses.py, facts/flow/region_flow.py,
facts/values/llvm_builder.py
"""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.domains import Domain
from mlir_async_pipe.facts.values.linear import LinearForms
from mlir_async_pipe.lowering import split_addresses
from mlir_async_pipe.lowering.rocdl.copy_addresses import split_for_rocdl
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

LOOP = """
  llvm.br ^outer(%c0, %c0 : i64, i64)
^outer(%i: i64, %sum_i: i64):
  {outer}
  llvm.br ^inner(%c0, %sum_i : i64, i64)
^inner(%j: i64, %sum: i64):
  {inner}
  %next_j = llvm.add %j, %c1 : i64
  %more_j = llvm.icmp "slt" %next_j, %three : i64
  llvm.cond_br %more_j, ^inner(%next_j, {total} : i64, i64), ^latch({total} : i64)
^latch(%after: i64):
  %next_i = llvm.add %i, %c1 : i64
  %more_i = llvm.icmp "slt" %next_i, %two : i64
  llvm.cond_br %more_i, ^outer(%next_i, %after : i64, i64), ^exit(%after : i64)
^exit(%result: i64):
  llvm.return %result : i64
}}
"""
CONSTANTS = (0, 1, 2, 3, 16, 24, -8, 4096, 2**31, 2**62, -(2**63), 2**63 - 1)


class Program:
    """A function of four integers that adds up the addresses of its inner loop."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.wide = ["%a", "%b", "%c", "%d"]
        self.narrow = ["%n"]

    def text(self) -> str:
        self.sums(3)
        start = self.taken()
        self.wide.append("%i")
        self.sums(3)
        outer = self.taken()
        self.wide.append("%j")
        total = "%sum"
        for _ in range(4):
            self.sums(2)
            pointer = self.pointer()
            number = self.value(f"llvm.ptrtoint {pointer} : !llvm.ptr to i64")
            mixed = self.value(f"llvm.mul {total}, %prime : i64")
            total = self.value(f"llvm.xor {mixed}, {number} : i64")
        inner = self.taken()
        return (
            "llvm.func @f(%a: i64, %b: i64, %c: i64, %d: i64) -> i64 {\n"
            "  %c0 = llvm.mlir.constant(0 : i64) : i64\n"
            "  %c1 = llvm.mlir.constant(1 : i64) : i64\n"
            "  %two = llvm.mlir.constant(2 : i64) : i64\n"
            "  %three = llvm.mlir.constant(3 : i64) : i64\n"
            "  %prime = llvm.mlir.constant(1099511628211 : i64) : i64\n"
            "  %n = llvm.trunc %a : i64 to i32\n"
            "  %base = llvm.inttoptr %d : i64 to !llvm.ptr\n"
            f"{start}{LOOP.format(outer=outer, inner=inner, total=total)}"
        )

    def sums(self, count: int) -> None:
        for _ in range(count):
            if self.random.random() < 0.2:
                self.narrow_sum()
                continue
            op = self.random.choice(("add", "add", "sub", "mul", "shl", "xor"))
            one, other = self.random.choice(self.wide), self.random.choice(self.wide)
            if op in ("mul", "shl") or self.random.random() < 0.4:
                other = self.constant(self.random.randrange(64) if op == "shl" else None)
            if op == "mul" and self.random.random() < 0.5:
                one, other = other, one
            self.wide.append(self.value(f"llvm.{op} {one}, {other} : i64"))

    def narrow_sum(self) -> None:
        """A 32-bit sum that wraps, and the 64 bits that it is extended to."""
        cut = self.value(f"llvm.trunc {self.random.choice(self.wide)} : i64 to i32")
        total = self.value(f"llvm.add {cut}, {self.random.choice(self.narrow)} : i32")
        self.narrow.append(total)
        extend = self.random.choice(("sext", "zext"))
        self.wide.append(self.value(f"llvm.{extend} {total} : i32 to i64"))

    def pointer(self) -> str:
        pointer = "%base"
        for _ in range(self.random.choice((1, 1, 2, 3))):
            kind = self.random.choice(("i8", "f16", "i24", "vector<3xf32>", "!llvm.array<5 x i16>"))
            match self.random.choice(("wide", "wide", "narrow", "constant")):
                case "constant":
                    index, operands = str(self.random.choice((0, 1, -7, 2**31 - 1))), ""
                case "narrow":
                    index, operands = self.random.choice(self.narrow), ", i32"
                case _:
                    index, operands = self.random.choice(self.wide), ", i64"
            signature = f"(!llvm.ptr{operands}) -> !llvm.ptr, {kind}"
            pointer = self.value(f"llvm.getelementptr {pointer}[{index}] : {signature}")
        return pointer

    def constant(self, number: int | None) -> str:
        number = self.random.choice(CONSTANTS) if number is None else number
        return self.value(f"llvm.mlir.constant({number} : i64) : i64")

    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}\n")
        return f"%v{self.count}"

    def taken(self) -> str:
        lines, self.lines = "".join(self.lines), []
        return lines


def split(module: ir.Module) -> None:
    found = passes.find("async-pipe-split-addresses")
    found.run(module.operation, found.options(), Session())
    assert module.operation.verify()


def run(module: ir.Module, arguments: list[int]) -> int:
    return int(machine.run(module, "f", arguments).results[0])


def addresses(seed: int) -> tuple[list[int], list[int]]:
    """What a program adds up before and after its addresses are split."""
    draw = random.Random(seed)
    given = [[draw.choice(CONSTANTS) + draw.randrange(-3, 4) for _ in range(4)] for _ in range(3)]
    given = [[(n + 2**63) % 2**64 - 2**63 for n in numbers] for numbers in given]
    with new_context(), np.errstate(over="ignore"):
        module = ir.Module.parse(Program(seed).text())
        before = [run(module, numbers) for numbers in given]
        split(module)
        return before, [run(module, numbers) for numbers in given]


@pytest.mark.parametrize("seed", range(60))
def test_addresses_are_the_same_modulo_2_to_the_64(seed: int) -> None:
    """Law: no address changes, also where 64-bit and 32-bit sums wrap."""
    before, after = addresses(seed)
    assert before == after


def test_taking_a_wrapping_32_bit_sum_apart_would_be_seen(monkeypatch) -> None:
    monkeypatch.setattr(LinearForms, "evaluate", Domain.evaluate)
    found = [addresses(seed) for seed in range(10)]
    assert any(before != after for before, after in found)


def test_a_second_run_changes_nothing() -> None:
    with new_context():
        module = ir.Module.parse(Program(1).text())
        split(module)
        once = count(module)
        split(module)
        assert count(module) == once


CHAIN = """
llvm.func @f(%p: !llvm.ptr, %n: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %a = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %b = llvm.getelementptr %a[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %c = llvm.getelementptr %b[3] : (!llvm.ptr) -> !llvm.ptr, f32
  USES
  %next = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next : i64), ^end
^end:
  llvm.return
}
"""


@pytest.mark.parametrize("used", ["c", "bc", "cb", "abc", "cba", "acb"])
def test_pointers_that_are_made_of_each_other_go_once(used: str) -> None:
    """Each is erased, with what it was made of, whichever of them were taken."""
    uses = "\n".join(f"%v{name} = llvm.load %{name} : !llvm.ptr -> f32" for name in used)
    for _ in range(20):
        with new_context():
            module = ir.Module.parse(CHAIN.replace("USES", uses))
            split(module)
            assert module.operation.verify()
            pointers = [op for op in walk(module) if op.name == "llvm.getelementptr"]
            assert all(next(iter(op.results[0].uses), None) is not None for op in pointers)


SLOTS = """
llvm.func @f(%a: i64, %n: i64) -> i64 {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %size = llvm.mlir.constant(SIZE : i64) : i64
  %factor = llvm.mlir.constant(FACTOR : i64) : i64
  %prime = llvm.mlir.constant(1099511628211 : i64) : i64
  %base = llvm.inttoptr %c0 : i64 to !llvm.ptr
  llvm.br ^loop(%c0, %c0, %c0 : i64, i64, i64)
^loop(%i: i64, %slot: i64, %sum: i64):
  %bytes = llvm.mul %slot, %factor : i64
  %at = llvm.add %bytes, %a : i64
  %p = llvm.getelementptr %base[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %number = llvm.ptrtoint %p : !llvm.ptr to i64
  %mixed = llvm.mul %sum, %prime : i64
  %total = llvm.xor %mixed, %number : i64
  %more = llvm.add %slot, %c1 : i64
  %wraps = llvm.icmp "eq" %more, %size : i64
  %next = llvm.select %wraps, %c0, %more : i1, i64
  %after = llvm.add %i, %c1 : i64
  %goes_on = llvm.icmp "slt" %after, %n : i64
  llvm.cond_br %goes_on, ^loop(%after, %next, %total : i64, i64, i64), ^exit
^exit:
  llvm.return %total : i64
}
"""


@pytest.mark.parametrize(
    ("size", "factor", "user", "is_narrow"),
    [
        (3, 5120, "llvm.ptrtoint", True),
        (5, 2**29 - 1, "llvm.ptrtoint", True),
        (5, 2**29, "llvm.ptrtoint", False),  # 4 times that is 2^31
        (3, -5120, "llvm.ptrtoint", False),
        (4, 5120, "llvm.ptrtoint", False),  # LLVM knows how large it is
        (65, 5120, "llvm.ptrtoint", False),  # no slot
        (3, 5120, "nvvm.ldmatrix", False),  # the loop loads no fragments
    ],
)
def test_slots_are_multiplied_in_32_bits_beside_fragments_where_the_product_fits(
    size: int, factor: int, user: str, *, is_narrow: bool, monkeypatch
) -> None:
    monkeypatch.setattr(split_addresses, "LDMATRIX", user)
    with new_context():
        module = ir.Module.parse(SLOTS.replace("SIZE", str(size)).replace("FACTOR", str(factor)))
        before = run(module, [2**62, 70])
        split(module)
        assert bool(re.search(r"llvm\.mul .* : i32", str(module))) == is_narrow
        assert run(module, [2**62, 70]) == before


def count(module: ir.Module) -> int:
    return sum(op.name == "llvm.getelementptr" for op in walk(module))


TWO_COPIES = """
module {{
  llvm.func @f(%lds: !llvm.ptr<3>, %a: !llvm.ptr<1>, %row: i64, %n: i64) attributes {{rocdl.kernel}} {{
    %c0 = llvm.mlir.constant(0 : i64) : i64
    %c2 = llvm.mlir.constant(2 : i64) : i64
    %c64 = llvm.mlir.constant(64 : i64) : i64
    %lane = rocdl.workitem.id.x : i32
    %wide = llvm.zext %lane : i32 to i64
    llvm.br ^loop(%c0 : i64)
  ^loop(%k: i64):
    %far = llvm.add %k, %c64 : i64
    {moves}
    %x = llvm.add %moved, %row : i64
    %p = llvm.getelementptr %a[%x] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f16
    rocdl.load.async.to.lds %p, %lds, 4, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
    %y = llvm.add %x, %row : i64
    %q = llvm.getelementptr %a[%y] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f16
    rocdl.load.async.to.lds %q, %lds, 4, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
    %next = llvm.add %k, %c2 : i64
    %more = llvm.icmp "slt" %next, %n : i64
    llvm.cond_br %more, ^loop(%next : i64), ^exit
  ^exit:
    llvm.return
  }}
}}
"""


def amd(moves: str) -> str:
    """The module after the pass, as AMD's lowering runs it."""
    text = TWO_COPIES.format(moves=moves)
    with new_context():
        module = ir.Module.parse(text)
        split_for_rocdl(module.operation, "gfx942")
        assert module.operation.verify()
        return module.operation.get_asm(print_generic_op_form=True)


def test_on_amd_what_all_threads_agree_on_is_hidden_in_a_scalar_register() -> None:
    text = amd("%moved = llvm.add %far, %c0 : i64")
    assert text.count('constraints = "=s,0"') == 1
    # The constant is added where nothing varies yet: 64 elements of f16.
    assert "rawConstantIndices = array<i32: 128>" in text


def test_on_amd_what_differs_between_lanes_is_not_hidden() -> None:
    text = amd("%moved = llvm.mul %far, %wide : i64")
    assert "inline_asm" not in text
