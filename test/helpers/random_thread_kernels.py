"""Random kernels whose threads and blocks compute their places in all ways that people write.

Right or wrong by chance, mostly nearly right: an interval between two barriers writes a buffer or reads it, at places that a
permutation of the threads gives (shifted, mirrored, transposed, swizzled, strided, or some sum, quotient, remainder or choice of
numbers that threads have alike); now and then a barrier, a wait or a commit is missing, stands under a condition, or orders less. What a
condition guards is waited for or used under the same condition, computed again. Buffers
overlap in views; loops are `scf.for` (also with bounds of the thread) and `scf.while`; phases stand in called functions.
Subscripts are in bounds, but for places in global memory. A kernel is `k(A, H, B, n, p)`, with its own `n` and `p` if `closed`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from random import Random

BITS = {"f32": 32, "f16": 16, "i8": 8}
SOURCES = {
    "f32": ("%A", "memref<256xf32>"),
    "f16": ("%H", "memref<512xf16>"),
    "i8": ("%B", "memref<1024xi8>"),
}
MAPS = (
    "d0 * 2 + d1",
    "d0 mod 4 + d1 * 4",
    "(d0 floordiv 4) * 8 + d1 mod 8",
    "d0 + d1",
    "(d0 + d1 * 3) mod 16",
    "(d0 ceildiv 3) + d1 * 2",
    "(d0 + d1) floordiv 2",
    "(d0 * 5 + 3) mod 32",
)
OPPOSITE = {
    **{"eq": "ne", "ne": "eq", "ult": "uge", "uge": "ult", "slt": "sge", "sge": "slt"},
    "ugt": "ule",
}
MIRRORED = {
    **{"eq": "eq", "ne": "ne", "ult": "ugt", "uge": "ule", "slt": "sgt", "sge": "sle"},
    "ugt": "ult",
}
Names = list[str]


@dataclass(frozen=True)
class Buffer:
    """A memref by its SSA name; `layout` follows the element type."""

    name: str
    shape: tuple[int, ...]
    element: str
    layout: str = ", 3"

    @property
    def size(self) -> int:
        return self.shape[0] * (self.shape[1] if len(self.shape) > 1 else 1)

    @property
    def type(self) -> str:
        return f"memref<{'x'.join(map(str, self.shape))}x{self.element}{self.layout}>"

    @property
    def shared(self) -> bool:
        return self.layout.endswith(", 3")


@dataclass(frozen=True)
class ThreadKernel:
    """A kernel's text, its block, its grid (one number), and the shapes of its arrays of f32 in global memory."""

    text: str
    block: tuple[int, int, int]
    grid: int = 1
    globals: tuple[tuple[int, ...], ...] = ()


@dataclass
class Writer:
    """Writes a body: `numbers` are what all threads have alike there."""

    random: Random
    threads: int
    rows: int = 1
    waits: float = 1.0
    weak: float = 0.0
    callees: list[str] | None = None
    buffers: list[Buffer] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    names: int = 0
    compared: tuple[str, str, str] | None = None

    @property
    def thread(self) -> str:
        return "%flat" if self.rows > 1 else "%t"

    def fresh(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def put(self, line: str) -> None:
        self.lines.append(line)

    def let(self, right: str) -> str:
        name = self.fresh()
        self.put(f"{name} = {right}")
        return name

    def constant(self, number: int) -> str:
        return f"%k{number}"

    def op(self, kind: str, a: str, b: str | int) -> str:
        b = self.constant(b) if isinstance(b, int) else b
        return self.let(f"arith.{kind} {a}, {b} : index")

    def one_of(self, *options: int) -> str:
        return self.constant(self.random.choice(options))

    # Numbers

    def number(self, leaves: Names, depth: int = 2) -> str:
        """Any natural number made of `leaves`."""
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return r.choice(leaves)
        a = self.number(leaves, depth - 1)
        kind = r.randrange(16)
        if kind == 0:
            more = r.random() < 0.5
            return self.op(
                "addi", a, self.number(leaves, depth - 1) if more else self.one_of(1, 2, 4, 8, 32)
            )
        if kind == 1:
            return self.op(
                "muli", a, self.one_of(2, 3, 4, 5, 8) if r.random() < 0.8 else r.choice(leaves)
            )
        if kind in (2, 3):
            names = (("divui", "divsi"), ("remui", "remsi"))[kind - 2]
            return self.op(r.choice(names), a, self.one_of(2, 3, 4, 8, 16, 32))
        if kind == 4:
            other = self.number(leaves, depth - 1) if r.random() < 0.4 else None
            return self.op("xori", a, other or self.one_of(1, 2, 3, 4, 7, 8, 16))
        if kind in (5, 6):
            return self.op(("andi", "ori")[kind - 5], a, self.one_of(1, 3, 7, 15, 6, 12, 24, 31))
        if kind in (7, 8):
            return self.op(("shli", "shrui")[kind - 7], a, self.one_of(1, 2, 3))
        if kind == 9:
            condition, other = self.condition(leaves), self.number(leaves, depth - 1)
            return self.let(f"arith.select {condition}, {a}, {other} : index")
        if kind == 10:
            bit = self.let(f"arith.extui {self.condition(leaves)} : i1 to i32")
            return self.op("addi", a, self.let(f"arith.index_castui {bit} : i32 to index"))
        if kind == 11:
            return self.op(r.choice(("minui", "maxui", "minsi")), a, self.one_of(1, 4, 7, 16))
        if kind == 12:
            return self.op("ceildivui", a, self.one_of(2, 3, 4, 8))
        if kind == 13:
            narrow = r.choice(("i32", "i32", "i8", "i16"))
            x = self.let(f"arith.index_cast {a} : index to {narrow}")
            if narrow == "i32":
                x = self.let(
                    f"arith.{r.choice(('addi', 'muli', 'xori'))} {x}, %i{r.choice((1, 2, 3))} : i32"
                )
            return self.let(f"arith.index_castui {x} : {narrow} to index")
        if kind == 14:
            other, of = self.number(leaves, depth - 1), r.choice(MAPS)
            return self.let(f"affine.apply affine_map<(d0, d1) -> ({of})>({a}, {other})")
        return self.op("subi", self.constant(127), self.op("remui", a, 64))

    def condition(self, leaves: Names) -> str:
        r = self.random
        a = self.number(leaves, 1)
        kind = r.choice(("eq", "ne", "ult", "uge", "slt", "sge", "ugt"))
        b = self.one_of(0, 1, 2, 3, 4, 8, 16) if r.random() < 0.8 else r.choice(leaves)
        if r.random() < 0.4:
            a, b = self.op("remui", a, self.one_of(2, 4)), self.one_of(0, 1, 2)
        found = self.let(f"arith.cmpi {kind}, {a}, {b} : index")
        self.compared = kind, a, b
        if r.random() < 0.15:
            kind = r.choice(("andi", "ori", "xori"))
            found = self.let(f"arith.{kind} {found}, {self.condition(leaves)} : i1")
            self.compared = None
        return found

    def again(self, kind: str, a: str, b: str) -> str:
        """A comparison that was made before, as somebody writes it who did not see that, or its opposite."""
        r = self.random
        if r.random() < 0.3:
            a = self.op("addi", a, 0)
        if r.random() < 0.1:
            kind = OPPOSITE[kind]
        elif r.random() < 0.2:
            kind, a, b = MIRRORED[kind], b, a
        return self.let(f"arith.cmpi {kind}, {a}, {b} : index")

    def place(self, leaves: Names) -> str:
        """A number that mostly is another one in each thread."""
        r, t, n = self.random, self.thread, self.threads
        low, high = partial(self.op, "remui", t), partial(self.op, "divui", t)
        kind = r.randrange(16)
        if kind < 2:
            return t
        if kind == 2:
            return self.op("xori", t, self.one_of(1, 2, 3, 7))
        if kind == 3:
            return self.op("subi", self.constant(n - 1), t)
        if kind == 4:
            return self.op("addi", self.op("muli", low(4), max(n // 4, 1)), high(4))
        if kind == 5:
            return self.op("remui", self.op("addi", t, self.one_of(1, 3)), n)
        if kind == 6:
            return self.op("remui", self.op("muli", t, self.one_of(2, 3, 5, 7)), n)
        if kind == 7:
            return self.op("xori", t, self.op("shrui", t, 1))
        if kind == 8:
            return self.op("addi", t, r.choice(leaves))
        if kind == 9:
            return self.op("xori", t, self.op("andi", r.choice(leaves), 3))
        if kind == 10:
            return self.op("muli", t, self.one_of(2, 3, 4))
        if kind == 11:
            slot = self.op("andi", r.choice(leaves), 1)
            return self.op("addi", t, self.op("muli", self.constant(n), slot))
        if kind == 12:
            crossed = self.op("xori", low(8), self.op("remui", high(8), 8))
            return self.op("addi", self.op("muli", high(8), 8), crossed)
        if kind == 13 and self.rows > 1:
            return self.op("addi", self.op("muli", "%t", self.rows), "%ty")
        if kind == 14:
            return high(r.choice((2, 4)))
        return self.number([*leaves, t], 2)

    # Accesses

    def subscripts(self, of: Buffer, place: str, wide: int = 1) -> Names:
        place = self.op("remui", place, of.size // wide)
        flat = self.op("muli", place, wide) if wide > 1 else place
        if len(of.shape) == 1:
            return [flat]
        if self.random.random() < 0.25:
            rows, columns = of.shape
            parts = self.fresh()
            self.put(
                f"{parts}:2 = affine.delinearize_index {flat} into ({rows}, {columns}) : index, index"
            )
            return [f"{parts}#0", f"{parts}#1"]
        return [self.op("divui", flat, of.shape[1]), self.op("remui", flat, of.shape[1])]

    def value(self, of: Buffer, leaves: Names) -> str:
        r = self.random
        source = self.thread if r.random() < 0.7 else r.choice(leaves)
        x = self.let(f"arith.index_cast {source} : index to i32")
        if of.element == "i8":
            return self.let(f"arith.trunci {x} : i32 to i8")
        return self.let(f"arith.sitofp {x} : i32 to {of.element}")

    def view(self, of: Buffer, leaves: Names) -> Buffer:
        """The buffer, or now and then a part of it."""
        r = self.random
        if not of.shared or of.layout != ", 3" or r.random() > 0.15:
            return of
        name, strided = self.fresh(), ", strided<[1], offset: ?>, 3"
        if len(of.shape) == 1:
            part = Buffer(name, (of.shape[0] // 2,), of.element, strided)
            start = self.op("remui", self.number(leaves, 1), part.size + 1)
            taken = f"[{start}] [{part.size}] [1]"
        elif r.random() < 0.5:
            part = Buffer(name, (of.shape[1],), of.element, strided)
            row = self.op("remui", self.number([*leaves, self.thread], 1), of.shape[0])
            taken = f"[{row}, 0] [1, {part.size}] [1, 1]"
        else:
            part = Buffer(name, (of.size,), of.element)
            self.put(
                f"{name} = memref.collapse_shape {of.name} [[0, 1]] : {of.type} into {part.type}"
            )
            return part
        self.put(f"{name} = memref.subview {of.name}{taken} : {of.type} to {part.type}")
        return part

    def access(self, of: Buffer, leaves: Names, *, writes: bool) -> None:
        r = self.random
        of = self.view(of, leaves)
        permuted = (writes or r.random() < 0.5) and r.random() < 0.92
        place = self.place(leaves) if permuted else self.number([*leaves, self.thread], 2)
        self.access_at(of, place, leaves, writes=writes)

    def access_at(self, of: Buffer, place: str, leaves: Names, *, writes: bool) -> None:
        form = self.random.random()
        wide = f"vector<4x{of.element}>"
        flat = len(of.shape) == 1 and of.layout == ", 3"
        if not writes:
            if form < 0.2:
                at = self.subscripts(of, place, 4)
                self.let(f"vector.load {of.name}[{', '.join(at)}] : {of.type}, {wide}")
            elif form < 0.3 and flat:
                (at,) = self.subscripts(of, place)
                pad = f"%zero_{of.element}"
                self.let(f"vector.transfer_read {of.name}[{at}], {pad} : {of.type}, {wide}")
            elif form < 0.36:
                self._masked(of, place, leaves, None)
            else:
                at = self.subscripts(of, place)
                self.let(f"memref.load {of.name}[{', '.join(at)}] : {of.type}")
            return
        if form < 0.3 or (not of.shared and form < 0.7):
            value, at = self.value(of, leaves), self.subscripts(of, place)
            self.put(f"memref.store {value}, {of.name}[{', '.join(at)}] : {of.type}")
        elif form < 0.45 or (not of.shared and form < 0.9):
            value = self.let(f"vector.broadcast {self.value(of, leaves)} : {of.element} to {wide}")
            kind = self.random.random()
            if kind < 0.6:
                at = self.subscripts(of, place, 4)
                self.put(f"vector.store {value}, {of.name}[{', '.join(at)}] : {of.type}, {wide}")
            elif kind < 0.8 or not flat:
                self._masked(of, place, leaves, value)
            else:
                (at,) = self.subscripts(of, place)
                self.put(f"vector.transfer_write {value}, {of.name}[{at}] : {wide}, {of.type}")
        elif (form < 0.5 or not of.shared) and of.element == "f32":
            at = ", ".join(self.subscripts(of, place))
            self.let(f"memref.atomic_rmw addf %zero_f32, {of.name}[{at}] : (f32, {of.type}) -> f32")
        else:
            self._copy(of, place, leaves)

    def _masked(self, of: Buffer, place: str, leaves: Names, value: str | None) -> None:
        wide, mask_type = f"vector<4x{of.element}>", "vector<4xi1>"
        at = ", ".join(self.subscripts(of, place, 4))
        number = self.random.choice([*leaves, self.thread])
        mask = self.let(f"vector.create_mask {number} : {mask_type}")
        if value is not None:
            self.put(
                f"vector.maskedstore {of.name}[{at}], {mask}, {value} : {of.type}, {mask_type}, {wide}"
            )
            return
        zeros = self.let(f"vector.broadcast %zero_{of.element} : {of.element} to {wide}")
        self.let(
            f"vector.maskedload {of.name}[{at}], {mask}, {zeros}"
            f" : {of.type}, {mask_type}, {wide} into {wide}"
        )

    def _copy(self, of: Buffer, place: str, leaves: Names) -> None:
        r = self.random
        word = 32 // BITS[of.element]
        count = r.choice((1, 1, 2, 4)) * word
        at = ", ".join(self.subscripts(of, place, count))
        first = self.number([*leaves, self.thread], 1) if r.random() < 0.3 else self.thread
        first = self.op("muli", self.op("remui", first, 64), 4 * word)
        limit = ""
        if r.random() < 0.25:
            limit = f", {self.op('remui', r.choice([*leaves, self.thread]), count + 1)}"
        source, kind = SOURCES[of.element]
        self.let(
            f"nvgpu.device_async_copy {source}[{first}], {of.name}[{at}], {count}{limit} : {kind} to {of.type}"
        )
        if r.random() < 0.75:
            self.put("nvvm.cp.async.commit.group")

    # Control

    def interval(self, leaves: Names) -> None:
        r = self.random
        for buffer in r.sample(self.buffers, r.choice((1, 1, min(2, len(self.buffers))))):
            writes = r.random() < 0.5
            for _ in range(r.choice((1, 1, 2))):
                self.access(buffer, leaves, writes=writes)

    def synchronise(self, leaves: Names, weak: float = 0.15) -> None:
        r = self.random
        if r.random() < self.waits:
            self.put(f"nvvm.cp.async.wait.group {0 if r.random() < 0.8 else r.choice((1, 2))}")
        elif r.random() < 0.1:
            condition = self.condition([*leaves, self.thread])
            self.put(f"scf.if {condition} {{\nnvvm.cp.async.wait.group 0\n}}")
        if r.random() < weak * self.weak:
            return
        kind = r.random()
        if kind < 0.08:
            self.put("nvvm.bar.warp.sync %all : i32")
        elif kind < 0.14 and self.threads % 32 == 0:
            self.put(f"nvvm.barrier id = %i{r.choice((1, 2))} number_of_threads = %count")
        else:
            self.put("nvvm.barrier" if kind < 0.25 else "gpu.barrier")

    def block(self, leaves: Names, depth: int, length: int) -> None:
        r = self.random
        for _ in range(length):
            kind = r.random()
            if kind < 0.14 and depth < 2:
                self._condition(leaves)
            elif kind < 0.36 and depth < 2:
                self._loop(leaves, depth)
            elif kind < 0.42 and self.callees is not None and depth < 2:
                self._call(leaves)
                self.synchronise(leaves)
            else:
                self.interval(leaves)
                self.synchronise(leaves)

    def flagged(self, place: str) -> str:
        """A condition that is loaded, from where nobody writes."""
        flag = self.let(f"memref.load %B[{place}] : memref<1024xi8>")
        return self.let(f"arith.cmpi sgt, {flag}, %zero_i8 : i8")

    def _guarded(self, leaves: Names) -> None:
        """A copy under a condition, its wait and its use under the same one."""
        r, of = self.random, self.random.choice(self.buffers)
        place = self.place(leaves)
        numbers = [*leaves, self.thread] if r.random() < 0.7 else leaves
        flag = self.op("remui", self.number(numbers, 1), 64) if r.random() < 0.25 else None
        condition = self.condition(numbers) if flag is None else self.flagged(flag)
        compared = None if flag else self.compared
        self.put(f"scf.if {condition} {{")
        self._copy(of, place, leaves)
        self.put("nvvm.cp.async.commit.group")
        self.put("}")
        for use in ("wait", "barrier", "access"):
            if use == "barrier":
                if r.random() < 0.5:
                    self.put("gpu.barrier")
            elif r.random() < 0.9:
                again = self.flagged(flag) if flag else condition
                self.put(f"scf.if {self.again(*compared) if compared else again} {{")
                if use == "wait":
                    self.put("nvvm.cp.async.wait.group 0")
                else:
                    self.access_at(of, place, leaves, writes=r.random() < 0.5)
                self.put("}")

    def _condition(self, leaves: Names) -> None:
        r = self.random
        alike = r.random() < 0.5
        if r.random() < 0.4 and all(buffer.shared for buffer in self.buffers):
            self._guarded(leaves)
            self.synchronise(leaves)
            return
        self.put(f"scf.if {self.condition(leaves if alike else [*leaves, self.thread])} {{")
        self.interval(leaves)
        if r.random() < 0.2:
            self.put("nvvm.cp.async.commit.group")
        if alike and r.random() < 0.5:
            self.synchronise(leaves, 0)
            self.interval(leaves)
        if r.random() < 0.4:
            self.put("} else {")
            self.interval(leaves)
        self.put("}")
        self.synchronise(leaves)

    def _loop(self, leaves: Names, depth: int) -> None:
        r = self.random
        i, high = self.fresh(), r.choice(("%n", "%n", "%k2", "%k3", "%k5"))
        low, step, length = self.one_of(0, 0, 1), self.one_of(1, 1, 1, 2, 3), r.choice((1, 2, 3))
        form = r.random()
        if form < 0.12:
            if r.random() < 0.5:
                high = self.op("remui", self.thread, 3)
            else:
                low = self.op("remui", self.thread, 4)
            self.put(f"scf.for {i} = {low} to {high} step {step} {{")
            self.interval([*leaves, i])
            self.put("}")
            self.synchronise(leaves)
        elif form < 0.4:
            self._carrying(leaves, depth, f"{i} = {low} to {high} step {step}", i)
        elif form < 0.5:
            a, more, b = self.fresh(), self.fresh(), self.fresh()
            self.put(f"{self.fresh()} = scf.while ({a} = {low}) : (index) -> index {{")
            self.put(f"{more} = arith.cmpi ult, {a}, {high} : index")
            self.put(f"scf.condition({more}) {a} : index\n}} do {{\n^bb0({b}: index):")
            self.block([*leaves, b], depth + 1, min(length, 2))
            self.put(f"scf.yield {self.op('addi', b, step)} : index\n}}")
        else:
            self.put(f"scf.for {i} = {low} to {high} step {step} {{")
            self.block([*leaves, i], depth + 1, length)
            self.put("}")

    def _carrying(self, leaves: Names, depth: int, head: str, i: str) -> None:
        """A loop that carries two numbers; the first may be each thread's own."""
        r = self.random
        a, b, own = self.fresh(), self.fresh(), r.random() < 0.2
        start = self.thread if own else "%k0"
        self.put(
            f"{self.fresh()}:2 = scf.for {head} iter_args({a} = {start}, {b} = {self.one_of(1, 2, 32)}) -> (index, index) {{"
        )
        self.block([*leaves, i, b, *([] if own else [a])], depth + 1, r.choice((1, 2, 3)))
        if own:
            self.interval([*leaves, a])
        form = r.random()
        if form < 0.3 and not own:
            then = b, a
        elif form < 0.7:
            counted = self.op("remui", self.op("addi", a, 1), self.one_of(2, 3, 4))
            then = counted, b if own else a
        else:
            then = self.op("xori", a, 1), self.op("addi", b, self.one_of(1, 2))
        self.put(f"scf.yield {then[0]}, {then[1]} : index, index\n}}")

    def _call(self, leaves: Names) -> None:
        """A function that has an interval or two on one buffer, handed a number."""
        r = self.random
        assert self.callees is not None
        of = r.choice(self.buffers)
        given = Buffer("%b", of.shape, of.element)
        inner = Writer(r, self.threads, self.rows, self.waits, self.weak, buffers=[given])
        for _ in range(r.choice((1, 2))):
            inner.interval(["%x"])
            if r.random() < 0.7:
                inner.synchronise(["%x"])
        name, kinds = f"@f{len(self.callees)}", ", ".join(kind for _, kind in SOURCES.values())
        sources = ", ".join(f"{source}: {kind}" for source, kind in SOURCES.values())
        self.callees.append(
            f"func.func private {name}(%b: {of.type}, %x: index, {sources}) {{\n"
            + "\n".join([*inner.prelude(), *inner.lines, "return\n}"])
        )
        number = self.number([*leaves, self.thread] if r.random() < 0.4 else leaves, 1)
        self.put(
            f"func.call {name}({of.name}, {number}, %A, %H, %B) : ({of.type}, index, {kinds}) -> ()"
        )

    def prelude(self) -> Names:
        used = {int(n) for line in self.lines for n in re.findall(r"%k(\d+)", line)}
        return [
            *(f"%k{n} = arith.constant {n} : index" for n in sorted(used)),
            *(f"%i{n} = arith.constant {n} : i32" for n in (1, 2, 3)),
            "%all = arith.constant -1 : i32",
            f"%count = arith.constant {self.threads} : i32",
            *(f"%zero_f{bits} = arith.constant 0.0 : f{bits}" for bits in (16, 32)),
            "%zero_i8 = arith.constant 0 : i8",
            "%t = gpu.thread_id x",
            "%ty = gpu.thread_id y",
            f"%width = arith.constant {self.threads // self.rows} : index",
            "%above = arith.muli %ty, %width : index",
            "%flat = arith.addi %above, %t : index",
        ]


def thread_kernel(seed: int, *, closed: bool = False) -> ThreadKernel:
    """One block and its workgroup memory."""
    r = Random(seed)
    threads = r.choice((1, 4, 8, 16, 32, 32, 64, 64))
    rows = r.choice((1, 1, 1, 2, 4)) if threads >= 8 else 1
    w = Writer(r, threads, rows, waits=r.choice((0.5, 0.9, 1.0)), weak=r.choice((0.0, 0.3, 1.0)))
    w.callees = [] if r.random() < 0.3 else None
    shapes = ((128,), (64,), (8, 16), (16, 8), (4, 32))
    for name in ("%s0", "%s1")[: r.choice((1, 2, 2))]:
        w.buffers.append(Buffer(name, r.choice(shapes), r.choice(("f32", "f32", "f16", "i8"))))
    start = r.choice((0, 64, 128, 256, 512)) if r.random() < 0.3 else None
    w.block(["%n", "%p"] if r.random() < 0.6 else ["%n"], 0, r.choice((2, 3, 4, 5)))
    if r.random() < 0.8:
        w.put("nvvm.cp.async.wait.group 0")
    head = w.prelude()
    if start is None:
        head += [f"{b.name} = memref.alloc() : {b.type}" for b in w.buffers]
    else:
        whole = "memref<1024xi8, 3>"
        head.append(f"%raw = memref.alloc() : {whole}")
        for b, first in zip(w.buffers, (0, start), strict=False):
            at = f"%at{b.name[1:]}"
            head.append(f"{at} = arith.constant {first} : index")
            head.append(f"{b.name} = memref.view %raw[{at}][] : {whole} to {b.type}")
    arguments = ", ".join(f"{s}: {kind} {{llvm.noalias}}" for s, kind in SOURCES.values())
    size = (threads // rows, rows, 1)
    return ThreadKernel(_module(r, w, head, arguments, size, closed=closed), size)


def grid_kernel(seed: int, *, closed: bool = False) -> ThreadKernel:
    """Some blocks and global memory, of which each mostly has rows of its own."""
    r = Random(seed)
    w = Writer(r, r.choice((1, 4, 8, 16, 32)))
    for name in ("%O0", "%O1")[: r.choice((1, 1, 2))]:
        w.buffers.append(Buffer(name, r.choice(((4096,), (4096,), (32, 64), (64, 32))), "f32", ""))
    _of_blocks(w, ["%n"] if r.random() < 0.5 else ["%n", "%p"], 0, r.choice((1, 1, 2, 3)))
    # A kernel that reads no block id is taken to run as one block.
    w.put("memref.store %zero_f32, %own[%b] : memref<8xf32>")
    grid = r.choice((2, 3, 4))
    outputs = [*w.buffers, Buffer("%own", (8,), "f32", "")]
    arguments = ", ".join(f"{b.name}: {b.type} {{llvm.noalias}}" for b in outputs)
    known = f", gpu.known_grid_size = array<i32: {grid}, 1, 1>"
    head = [*w.prelude(), "%b = gpu.block_id x", "%g = gpu.grid_dim x"]
    size = (w.threads, 1, 1)
    text = _module(r, w, head, arguments, size, known, closed=closed)
    return ThreadKernel(text, size, grid, tuple(b.shape for b in outputs))


def _of_blocks(w: Writer, leaves: Names, depth: int, length: int) -> None:
    r = w.random
    for _ in range(length):
        kind = r.random()
        if kind < 0.2 and depth < 2:
            named = r.choice(([w.thread], ["%b"], [], ["%b", w.thread]))
            w.put(f"scf.if {w.condition([*leaves, *named])} {{")
            _of_blocks(w, leaves, depth + 1, 1)
            if r.random() < 0.3:
                w.put("} else {")
                _of_blocks(w, leaves, depth + 1, 1)
            w.put("}")
        elif kind < 0.4 and depth < 2:
            i = w.fresh()
            form = r.random()
            if form < 0.35:
                bounds = f"%b to {r.choice(('%n', '%k8'))} step %g"
            elif form < 0.45:
                bounds = f"%t to {r.choice(('%n', '%k16'))} step {w.constant(w.threads)}"
            else:
                bounds = f"%k0 to {r.choice(('%n', '%k2', '%k3'))} step {w.one_of(1, 2)}"
            w.put(f"scf.for {i} = {bounds} {{")
            _of_blocks(w, [*leaves, i], depth + 1, r.choice((1, 2)))
            w.put("}")
        else:
            of = r.choice(w.buffers)
            w.access_at(of, _of_block(w, leaves), leaves, writes=r.random() < 0.5)
            if depth == 0 and r.random() < 0.4:
                w.put("gpu.barrier")


def _of_block(w: Writer, leaves: Names) -> str:
    """A place that mostly is one block's and one thread's."""
    r, t, n = w.random, w.thread, w.threads
    row = "%b" if r.random() < 0.8 else w.number(leaves, 1)
    kind = r.randrange(12)
    if kind < 4:
        tile = r.choice((n, n, n, 2 * n, max(n // 2, 1)))
        found = w.op("addi", w.op("muli", row, tile), t if r.random() < 0.7 else w.place(leaves))
    elif kind < 6:
        found = w.op("addi", w.op("muli", t, "%g"), row)
    elif kind == 6:
        found = w.op("addi", w.op("muli", t, w.one_of(2, 3, 4)), row)
    elif kind == 7:
        found = w.op("muli", w.op("addi", w.op("muli", row, n), t), w.one_of(1, 2, 4))
    elif kind == 8:
        pair = w.op("muli", w.op("divui", row, 2), 2 * n)
        found = w.op("addi", pair, w.op("addi", w.op("muli", t, 2), w.op("remui", row, 2)))
    elif kind == 9:
        found = w.op("xori", w.op("addi", w.op("muli", row, n), t), w.one_of(1, 2, 3, 8))
    else:
        found = w.number([*leaves, t, "%b"], 2)
    if r.random() < 0.3:
        found = w.op("addi", found, w.op("muli", r.choice(leaves), r.choice((1, n, 4 * n, 64))))
    return found


def _module(
    r: Random,
    w: Writer,
    head: Names,
    arguments: str,
    size: tuple[int, int, int],
    more: str = "",
    *,
    closed: bool,
) -> str:
    given = f"{arguments}" if closed else f"{arguments}, %n: index, %p: index"
    numbers = [f"%{x} = arith.constant {r.randrange(9)} : index" for x in ("n", "p") if closed]
    block = f"gpu.known_block_size = array<i32: {size[0]}, {size[1]}, 1>{more}"
    lines = [
        "module {",
        *(w.callees or ()),
        f"func.func @k({given}) attributes {{{block}}} {{",
        *numbers,
        *head,
        *w.lines,
        "return\n}\n}",
    ]
    return "\n".join(lines) + "\n"
