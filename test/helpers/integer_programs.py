"""Random integer expressions over a thread id, a loop counter, an argument and constants, and
kernels that use them as subscripts and conditions of an asynchronous copy and a read.

    copy A[tid] -> s[x], wait, if p { read s[y] }          no barrier: y of one thread must not be
                                                           x of another one where p holds
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
THREADS = 16
PLACES = 64

_BINARY = "addi subi muli andi ori xori minsi minui maxsi maxui addi subi muli addi subi".split()
_BY_CONSTANT = (
    "divui divsi remui remsi floordivsi ceildivsi ceildivui shli shrui shrsi remui divui".split()
)
_PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()


@dataclass
class Writer:
    """Writes ops, one a line, with names of their own. `leaves` are index values."""

    rng: random.Random
    leaves: list[str]
    lines: list[str] = field(default_factory=list)
    ops: set[str] = field(default_factory=set)
    flags: bool = False

    def name(self) -> str:
        """A fresh SSA name."""
        return f"%v{len(self.lines)}"

    def emit(self, text: str) -> str:
        """Append `name = text`."""
        made = self.name()
        self.lines.append(f"{made} = {text}")
        self.ops.add(text.split()[0])
        return made

    def constant(self, kind: str, value: int) -> str:
        """A constant of a type, its value modulo the width."""
        half = 1 << (WIDTHS[kind] - 1)
        return self.emit(f"arith.constant {(value + half) % (2 * half) - half} : {kind}")

    def any_constant(self, kind: str) -> str:
        """A small constant, or one near an end of the type."""
        half = 1 << (WIDTHS[kind] - 1)
        near = self.rng.choice((0, 0, 0, 0, half, half - 1, 2 * half - 1))
        return self.constant(kind, near + self.rng.randint(-9, 20))

    def cast(self, value: str, source: str, target: str) -> str:
        """Any cast from one type to another."""
        if source == target:
            return value
        if "index" in (source, target):
            name = self.rng.choice(("index_cast", "index_castui"))
        elif WIDTHS[target] > WIDTHS[source]:
            name = self.rng.choice(("extsi", "extui"))
        else:
            name = "trunci"
        return self.emit(f"arith.{name} {value} : {source} to {target}")

    def leaf(self, kind: str) -> str:
        """A constant, a thread id or a counter as a value of a type."""
        if self.rng.random() < 0.3:
            return self.any_constant(kind)
        return self.cast(self.rng.choice(self.leaves), "index", kind)

    def tree(self, kind: str, depth: int) -> str:
        """A value of a type."""
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(kind)
        choice = self.rng.random()
        if choice < 0.15:
            other = self.rng.choice(list(WIDTHS))
            return self.cast(self.tree(other, depth - 1), other, kind)
        if choice < 0.25:
            a, b = self.tree(kind, depth - 1), self.tree(kind, depth - 1)
            return self.emit(f"arith.select {self.condition(depth - 1)}, {a}, {b} : {kind}")
        a = self.tree(kind, depth - 1)
        if choice < 0.55:
            name = self.rng.choice(_BY_CONSTANT)
            b = self._divisor(kind, name)
        else:
            name = self.rng.choice(_BINARY)
            b = self.tree(kind, depth - 1)
        return self.emit(f"arith.{name} {a}, {b} : {kind}")

    def _divisor(self, kind: str, name: str) -> str:
        if name in ("shli", "shrui", "shrsi"):
            return self.constant(kind, self.rng.randrange(min(WIDTHS[kind], 9)))
        # Not 0, and not -1: the smallest number divided by it is not defined.
        if self.rng.random() < 0.2:
            return self.constant(kind, self.rng.choice((-3, -8, (1 << (WIDTHS[kind] - 1)) - 5)))
        return self.constant(kind, self.rng.choice((1, 2, 3, 4, 5, 7, 8, 16)))

    def condition(self, depth: int) -> str:
        """An i1."""
        if depth > 0 and self.rng.random() < 0.2:
            name = self.rng.choice(("andi", "ori", "xori", "addi", "subi", "muli"))
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.emit(f"arith.{name} {a}, {b} : i1")
        kind = self.rng.choice(list(WIDTHS))
        predicate = self.rng.choice(_PREDICATES)
        a, b = self.tree(kind, depth), self.tree(kind, max(depth - 1, 0))
        return self.emit(f"arith.cmpi {predicate}, {a}, {b} : {kind}")

    def subscript(self, depth: int) -> str:
        """An index in 0 .. PLACES-1."""
        kind = self.rng.choice(list(WIDTHS))
        value = self.tree(kind, depth)
        inside = self.emit(f"arith.remui {value}, {self.constant(kind, PLACES)} : {kind}")
        return self.cast(inside, kind, "index")


KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %n: index) workgroup(%s: memref<64xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 16, 1, 1>}} {{
    %tid = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %first = arith.constant {first} : {counter}
    %last = arith.constant {last} : {counter}
    %step = arith.constant {step} : {counter}
    scf.for {unsigned} %k = %first to %last step %step {counted} {{
      {lines}
      %a = nvgpu.device_async_copy %A[%tid], %s[{to}], 1 : memref<64xf32> to memref<64xf32, 3>
      %g = nvgpu.device_async_create_group %a
      nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
      scf.if {condition} {{
        %r = memref.load %s[{place}] : memref<64xf32, 3>
      }}
      gpu.barrier
    }}
    gpu.return
  }}
}}
"""


def kernel(seed: int) -> tuple[str, set[str]]:
    """A kernel and the names of the ops in its expressions."""
    rng = random.Random(seed)
    counter = rng.choice(("index", "i8", "i32", "i64"))
    half = 1 << (WIDTHS[counter] - 1)
    unsigned = counter != "index" and rng.random() < 0.4
    trips = rng.randint(0, 3)
    step = rng.choice((1, 1, 2, 5))
    # The last value of the counter and a step more still fit.
    first = rng.choice((0, 0, -3 if not unsigned else 3, half - 2 - step * (trips + 1)))
    if unsigned and rng.random() < 0.5:
        first = half - 2
    writer = Writer(rng, ["%tid", "%tid", "%tid", "%k", "%n"])
    if counter != "index":
        cast = rng.choice(("index_cast", "index_castui"))
        writer.lines.append(f"%ki = arith.{cast} %k : {counter} to index")
        writer.leaves[3] = "%ki"
    to = "%tid" if rng.random() < 0.5 else writer.subscript(rng.randint(1, 2))
    place = writer.subscript(rng.randint(1, 3))
    condition = writer.condition(rng.randint(0, 2))
    last = first + step * trips
    text = KERNEL.format(
        first=_as_signed(first, half),
        last=_as_signed(last, half),
        step=step,
        counter=counter,
        counted="" if counter == "index" else f": {counter}",
        unsigned="unsigned" if unsigned else "",
        lines="\n      ".join(writer.lines),
        to=to,
        place=place,
        condition=condition,
    )
    return text, writer.ops


def _as_signed(number: int, half: int) -> int:
    return (number + half) % (2 * half) - half
