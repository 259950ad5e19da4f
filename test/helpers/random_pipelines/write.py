"""Writes a shape down as MLIR text.

buffers, ids, bounds
[ scf.for %o = tiles ]
  scf.for %i = %lo to %hi step %st {
    copies; group; wait; barrier
    [ middle; barrier ]
    sinks; carried values
    barrier
  } {annotation}
  what is left of carried values
"""

from __future__ import annotations

from dataclasses import dataclass, field

from helpers.random_pipelines.buffers import WORKGROUP, Buffer, declare
from helpers.random_pipelines.shape import Copy, Shape, wrapped

FUNCTION = "k"
CONTRACT = (
    "{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], "
    'iterator_types = ["reduction"], kind = #vector.kind<add>}'
)
CONTRACTED = ": vector<1xf32>, vector<1xf32> into f32"
ROWS_AHEAD = 4


def write(shape: Shape) -> str:
    """The module."""
    return _Writer(shape).module()


@dataclass
class _Statement:
    """A numbered statement of the loop; `asynchronous`: of a stage that is listed as such."""

    stage: int
    asynchronous: bool = False


@dataclass
class _Writer:
    shape: Shape
    names: int = 0
    lines: list[str] = field(default_factory=list)
    statements: list[_Statement] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    carried: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Name, initial value, yielded value and type of each iter_arg."""

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def put(self, line: str) -> None:
        self.lines.append(line)

    def value(self, line: str) -> str:
        """Write `name = line`; returns the name."""
        name = self.name()
        self.put(f"{name} = {line}")
        return name

    def statement(self, stage: int, asynchronous: bool = False) -> None:
        """Count the statement that is written next."""
        self.statements.append(_Statement(stage, asynchronous))

    # The module -----------------------------------------------------------------------------

    def module(self) -> str:
        shape = self.shape
        self.buffers, outside = declare(shape)
        inputs = [
            f"%in{n}: {self.row(copy.element)} {{llvm.noalias}}"
            for n, copy in enumerate(shape.copies)
        ]
        outputs = [f"%out{n}: {self.row()} {{llvm.noalias}}" for n in range(shape.outputs)]
        kind = shape.counter
        parameters = [*inputs, *outputs, f"%from: {kind}", f"%upto: {kind}"]
        x, y, z = shape.block
        for line in (*outside, *self.callees()):
            self.put(line)
        self.put(
            f"func.func @{FUNCTION}({', '.join(parameters)}) attributes "
            f"{{gpu.kernel, known_block_size = array<i32: {x}, {y}, {z}>}} {{"
        )
        self.setup()
        if shape.outer:
            self.put(f"%tiles = arith.constant {shape.outer} : index")
            self.put(f"%tile_rows = arith.constant {shape.trips} : index")
            self.put("scf.for %o = %c0 to %tiles step %c1 {")
        self.loop()
        if shape.outer:
            self.put("}" + shape.outer_annotation)
        self.put("return")
        self.put("}")
        return "\n".join(self.lines) + "\n"

    def row(self, element: str = "f32") -> str:
        """The type of an input or output."""
        lanes = "x".join(map(str, self.shape.lanes))
        return f"memref<{self.shape.rows}x{lanes}x{element}>"

    def callees(self) -> list[str]:
        """The functions that are called."""
        lines = []
        if "call value" in self.shape.sinks:
            lines += [
                "func.func private @twice(%x: f32) -> f32 {",
                "%y = arith.addf %x, %x : f32",
                "return %y : f32",
                "}",
            ]
        if "call store" in self.shape.sinks:
            ids = [f"%t{n}" for n in range(len(self.shape.lanes))]
            listed = "".join(f", {name}: index" for name in ids)
            lines += [
                f"func.func private @put(%to: {self.row()}, %r: index{listed}, %x: f32) {{",
                f"memref.store %x, %to[{', '.join(['%r', *ids])}] : {self.row()}",
                "return",
                "}",
            ]
        return lines

    def setup(self) -> None:
        """Constants, buffers, thread ids, bounds."""
        shape = self.shape
        for number in range(ROWS_AHEAD + 1):
            self.put(f"%c{number} = arith.constant {number} : index")
        for buffer in self.buffers:
            self.lines += buffer.setup if self.shape.views_outside else buffer.memory
        if shape.middle:
            self.put(f"%mid = memref.alloc() : {self.middle_type}")
        for dimension, axis in enumerate("xyz"[: len(shape.lanes)][::-1]):
            size = shape.lanes[dimension]
            self.put(f"%t{dimension} = gpu.thread_id {axis}")
            self.put(f"%size{dimension} = arith.constant {size - 1} : index")
            self.put(f"%u{dimension} = arith.subi %size{dimension}, %t{dimension} : index")
        kind = shape.counter
        if shape.dynamic:
            self.put(f"%zero = arith.constant 0 : {kind}")
            self.put(f"%lo = arith.addi %from, %zero : {kind}")
            self.put(f"%hi = arith.addi %upto, %zero : {kind}")
        else:
            self.put(f"%lo = arith.constant {wrapped(shape.first, kind)} : {kind}")
            self.put(f"%hi = arith.constant {wrapped(shape.last, kind)} : {kind}")
        self.put(f"%st = arith.constant {shape.step} : {kind}")
        self.put("%half = arith.constant 5.000000e-01 : f32")

    @property
    def middle_type(self) -> str:
        """The type of the second buffer."""
        return f"memref<{'x'.join(map(str, self.shape.lanes))}xf32, {WORKGROUP}>"

    @property
    def own(self) -> str:
        """The indices of a thread's own element."""
        return ", ".join(f"%t{n}" for n in range(len(self.shape.lanes)))

    @property
    def read(self) -> str:
        """The indices of the element that a thread reads: its own, or the one opposite."""
        prefix = "u" if self.shape.across else "t"
        return ", ".join(f"%{prefix}{n}" for n in range(len(self.shape.lanes)))

    @property
    def last(self) -> int:
        """The stage of the sinks, of schedules by arrays."""
        return max(self.shape.stages - 1, 2 if self.shape.middle == "async" else 1)

    # The loop -------------------------------------------------------------------------------

    def loop(self) -> None:
        shape = self.shape
        for carried in shape.carried:
            self.begin_carried(carried.what, carried.distance)
        head = len(self.lines)
        self.body()
        word = "unsigned " if shape.unsigned else ""
        kind = "" if shape.counter == "index" else f" : {shape.counter}"
        opening = f"scf.for {word}%i = %lo to %hi step %st"
        if self.carried:
            pairs = ", ".join(f"{name} = {start}" for name, start, _, _ in self.carried)
            types = ", ".join(kind_ for _, _, _, kind_ in self.carried)
            opening = f"%r:{len(self.carried)} = {opening} iter_args({pairs}) -> ({types})"
            yielded = ", ".join(value for _, _, value, _ in self.carried)
            self.put(f"scf.yield {yielded} : {types}")
        self.lines.insert(head, f"{opening}{kind} {{")
        self.put("}" + self.annotation())
        self.left()

    def annotation(self) -> str:
        """The attributes of the loop."""
        shape, entries = self.shape, list(self.shape.extra)
        if shape.form == "num_stages":
            entries.append(f"async_pipe.num_stages = {shape.stages} : i64")
        elif shape.form == "arrays":
            stages = [statement.stage for statement in self.statements]
            entries.append(f"async_pipe.stage = {stages}")
            entries.append(f"async_pipe.order = {self.order()}")
            asynchronous = sorted({s.stage for s in self.statements if s.asynchronous})
            if asynchronous:
                entries.append(f"async_pipe.async_stages = {asynchronous}")
        return f" {{{', '.join(entries)}}}" if entries else ""

    def order(self) -> list[int]:
        """The place of each statement: textual, or later stages first."""
        numbers = list(range(len(self.statements)))
        if self.shape.order == "consumers first":
            numbers.sort(key=lambda n: -self.statements[n].stage)
        return [numbers.index(n) for n in range(len(numbers))]

    def body(self) -> None:
        if not self.shape.views_outside:
            self.lines += [line for buffer in self.buffers for line in buffer.views]
        self.rows()
        late = [n for n, copy in enumerate(self.shape.copies) if copy.how == "late"]
        tokens, loaded = [], {}
        for number, copy in enumerate(self.shape.copies):
            if copy.how == "late":
                loaded[number] = self.load_input(number, copy, 0)
            else:
                tokens += self.copy(number, copy)
        if any(copy.how not in ("pair", "late") for copy in self.shape.copies):
            self.put(f"%group = nvgpu.device_async_create_group {', '.join(tokens)}".rstrip())
            if not tokens:
                self.lines[-1] += " {async_pipe.empty}"
            self.put("nvgpu.device_async_wait %group")
        for number in late:
            self.store_late(number, loaded[number])
        self.put("gpu.barrier")
        if self.shape.middle:
            self.middle()
        for number, sink in enumerate(self.shape.sinks):
            self.sink(sink, number)
        for carried in self.shape.carried:
            self.end_carried(carried.what, carried.distance)
        self.put("gpu.barrier")

    def rows(self) -> None:
        """`%row`: the number of the iteration, over all tiles; `%guard`."""
        shape, kind = self.shape, self.shape.counter
        if (shape.first, shape.step, kind) == (0, 1, "index"):
            row = "%i"
        else:
            far = self.value(f"arith.subi %i, %lo : {kind}")
            number = self.value(f"arith.divui {far}, %st : {kind}")
            row = number
            if kind != "index":
                row = self.value(f"arith.index_castui {number} : {kind} to index")
        if shape.outer:
            start = self.value("arith.muli %o, %tile_rows : index")
            row = self.value(f"arith.addi {start}, {row} : index")
        self.put(f"%row = arith.addi {row}, %c0 : index")
        if shape.guard == "iteration":
            rest = self.value("arith.remui %row, %c2 : index")
            self.put(f"%guard = arith.cmpi eq, {rest}, %c0 : index")
        elif shape.guard == "thread":
            self.put("%guard = arith.cmpi ult, %t0, %c1 : index")
        elif shape.guard:
            self.put("%guard = arith.cmpi ult, %row, %c3 : index")

    # Copies ---------------------------------------------------------------------------------

    def source(self, number: int, copy: Copy) -> str:
        """The indices of the row that a copy reads."""
        row = "%row"
        if copy.ahead:
            row = self.value(f"arith.addi {row}, %c{copy.ahead} : index")
        for carried in self.shape.carried:
            if carried.what == "rows":
                row = self.value(f"arith.addi {row}, %k{carried.distance} : index")
            elif carried.what == "swap":
                row = self.value(f"arith.addi {row}, %sa : index")
        return f"{row}, {self.own}"

    def copy(self, number: int, copy: Copy) -> list[str]:
        """Write a copy; returns its tokens."""
        buffer = self.buffers[number]
        if copy.how == "pair":
            value = self.load_input(number, copy, 0, asynchronous=True)
            self.statement(0, asynchronous=True)
            self.put(
                f"memref.store {value}, {buffer.to(self.own)}{self.cost(40)} : {buffer.write_type}"
            )
            return []
        at = self.source(number, copy)
        filled = ""
        if copy.how == "filled":
            filled = ", " + self.value("arith.select %guard, %c1, %c0 : index")
        self.statement(0, asynchronous=True)
        text = (
            f"nvgpu.device_async_copy %in{number}[{at}], {buffer.to(self.own)}, 1{filled}"
            f"{self.cost(500)} : {self.row(copy.element)} to {buffer.write_type}"
        )
        if copy.how == "guarded":
            self.put("scf.if %guard {")
            self.value(text)
            self.put("}")
            return []
        return [self.value(text)]

    def load_input(self, number: int, copy: Copy, stage: int, asynchronous: bool = False) -> str:
        """A load from global memory."""
        at = self.source(number, copy)
        self.statement(stage, asynchronous)
        return self.value(
            f"memref.load %in{number}[{at}]{self.cost(400)} : {self.row(copy.element)}"
        )

    def store_late(self, number: int, value: str) -> None:
        """A value of stage 0 reaches its buffer one stage later."""
        buffer = self.buffers[number]
        self.statement(1)
        self.put(f"memref.store {value}, {buffer.to(self.own)} : {buffer.write_type}")

    def cost(self, cycles: int) -> str:
        """How long an op takes, where the schedule is made of that."""
        if self.shape.form != "latency":
            return ""
        return f" {{async_pipe.latency = {cycles} : i64}}"

    # What is done with the copies -----------------------------------------------------------

    def total(self, stage: int | None) -> str:
        """The sum of what was copied; each load is a statement if `stage` is given."""
        if self.shape.middle:
            if stage is not None:
                self.statement(stage)
            return self.value(f"memref.load %mid[{self.read}] : {self.middle_type}")
        return self.sum_of_copies(stage)

    def sum_of_copies(self, stage: int | None) -> str:
        """The same of the copied buffers themselves."""
        total = ""
        for copy, buffer in zip(self.shape.copies, self.buffers, strict=True):
            if stage is not None:
                self.statement(stage)
            cost = self.cost(30) if stage is not None else ""
            value = self.value(f"memref.load {buffer.at(self.read)}{cost} : {buffer.read_type}")
            if copy.element != "f32":
                value = self.value(f"arith.sitofp {value} : {copy.element} to f32")
            total = self.value(f"arith.addf {total}, {value} : f32") if total else value
        return total

    def middle(self) -> None:
        """From the copied buffers into one of their own."""
        is_async = self.shape.middle == "async"
        self.statement(1 if is_async else self.last, is_async)
        self.put("scf.execute_region no_inline {")
        value = self.sum_of_copies(None)
        self.put(f"memref.store {value}, %mid[{self.own}] : {self.middle_type}")
        self.put("scf.yield")
        self.put("}")
        self.put("gpu.barrier")

    def sink(self, kind: str, number: int) -> None:
        """Write one row of an output."""
        out = f"%out{number}"
        match kind:
            case "flat":
                value = self.total(self.last)
                self.statement(self.last)
                self.put(
                    f"memref.store {value}, {out}[%row, {self.own}]{self.cost(60)} : {self.row()}"
                )
            case "products" | "products last":
                value = self.products(loads_first=kind == "products last")
                self.put(f"memref.store {value}, {out}[%row, {self.own}] : {self.row()}")
            case "store":
                self.region("scf.execute_region no_inline {")
                value = self.total(None)
                self.put(f"memref.store {value}, {out}[%row, {self.own}] : {self.row()}")
                self.end_region()
            case "sum":
                self.region("scf.execute_region no_inline {")
                self.add_to(out, "%c0", self.total(None))
                self.end_region()
            case "if":
                self.region("scf.if %guard {" if self.shape.guard else "scf.if %odd {")
                value = self.total(None)
                self.put(f"memref.store {value}, {out}[%row, {self.own}] : {self.row()}")
                self.put("}")
            case "loop":
                counter = self.name()
                self.region(f"scf.for {counter} = %c0 to %c3 step %c1 {{")
                self.add_to(out, counter, self.total(None))
                self.put("}")
            case "atomic" | "atomic all":
                value = self.total(self.last)
                zeros = ", ".join("%c0" for _ in self.shape.lanes)
                at = self.own if kind == "atomic" else zeros
                self.statement(self.last)
                self.value(
                    f"memref.atomic_rmw addf {value}, {out}[%c0, {at}] : (f32, {self.row()}) -> f32"
                )
            case "call value":
                value = self.total(self.last)
                self.statement(self.last)
                value = self.value(f"func.call @twice({value}) : (f32) -> f32")
                self.statement(self.last)
                self.put(f"memref.store {value}, {out}[%row, {self.own}] : {self.row()}")
            case "call store":
                value = self.total(self.last)
                self.statement(self.last)
                kinds = ", ".join(["index"] * (1 + len(self.shape.lanes)))
                self.put(
                    f"func.call @put({out}, %row, {self.own}, {value}) : "
                    f"({self.row()}, {kinds}, f32) -> ()"
                )

    def products(self, loads_first: bool) -> str:
        """One product for each copy, with the number of the iteration, and their sum; all loads
        come before the first product, or each before its own."""
        whole = self.value("arith.index_cast %row : index to i32")
        number = self.value(f"arith.sitofp {whole} : i32 to f32")
        factor = self.value(f"vector.broadcast {number} : f32 to vector<1xf32>")
        loaded = list(map(self.load_copied, range(len(self.buffers)))) if loads_first else []
        total = "%half"
        for number_of_copy, copy in enumerate(self.shape.copies):
            value = loaded[number_of_copy] if loads_first else self.load_copied(number_of_copy)
            if copy.element != "f32":
                value = self.value(f"arith.sitofp {value} : {copy.element} to f32")
            vector = self.value(f"vector.broadcast {value} : f32 to vector<1xf32>")
            total = self.value(
                f"vector.contract {CONTRACT} {vector}, {factor}, {total} {CONTRACTED}"
            )
        return total

    def load_copied(self, number: int) -> str:
        """A load of what was copied."""
        buffer = self.buffers[number]
        return self.value(f"memref.load {buffer.at(self.read)} : {buffer.read_type}")

    def region(self, opening: str) -> None:
        """Begin a statement with a region."""
        self.statement(self.last)
        self.put(opening)

    def end_region(self) -> None:
        self.put("scf.yield")
        self.put("}")

    def add_to(self, out: str, row: str, value: str) -> None:
        """Add to a row of an output."""
        at = f"{out}[{row}, {self.own}]"
        old = self.value(f"memref.load {at} : {self.row()}")
        new = self.value(f"arith.addf {old}, {value} : f32")
        self.put(f"memref.store {new}, {at} : {self.row()}")

    # Carried values -------------------------------------------------------------------------

    @property
    def rest(self) -> str:
        """The output of what is left of carried values."""
        return f"%out{self.shape.outputs - 1}"

    def begin_carried(self, what: str, distance: int) -> None:
        """Declare iter_args; the yielded values are known at the end of the body."""
        match what:
            case "sum":
                self.put("%none = arith.constant 0.000000e+00 : f32")
                self.carried += [(f"%p{n}", "%none", "", "f32") for n in range(1, distance + 1)]
            case "rows":
                self.carried += [(f"%k{n}", "%c0", "", "index") for n in range(1, distance + 1)]
            case "swap":
                self.carried += [("%sa", "%c0", "%sb", "index"), ("%sb", "%c1", "%sa", "index")]
            case "swap late":
                self.put("%three = arith.constant 3.000000e+00 : f32")
                self.carried += [("%fa", "%half", "%fb", "f32"), ("%fb", "%three", "%fa", "f32")]

    def end_carried(self, what: str, distance: int) -> None:
        """Use carried values in the last stage, and make the next ones."""
        match what:
            case "sum":
                new = self.value(f"arith.addf {self.plain_value()}, %p{distance} : f32")
                self.yield_values("%p", distance, new)
            case "rows":
                up = self.value(f"arith.addi %k{distance}, %c1 : index")
                self.yield_values("%k", distance, self.value(f"arith.andi {up}, %c1 : index"))
            case "memory":
                self.statement(self.last)
                old = self.value(f"memref.load {self.rest}[%row, {self.own}] : {self.row()}")
                new = self.value(f"arith.addf {old}, {self.plain_value()} : f32")
                row = self.value(f"arith.addi %row, %c{distance} : index")
                self.statement(self.last)
                self.put(f"memref.store {new}, {self.rest}[{row}, {self.own}] : {self.row()}")
            case "swap":
                number = self.value("arith.index_cast %sb : index to i32")
                value = self.value(f"arith.sitofp {number} : i32 to f32")
                self.statement(self.last)
                self.put(f"memref.store {value}, {self.rest}[%row, {self.own}] : {self.row()}")
            case "swap late":
                row = self.value("arith.addi %row, %c4 : index")
                self.statement(self.last)
                self.put(f"memref.store %fa, {self.rest}[{row}, {self.own}] : {self.row()}")

    def plain_value(self) -> str:
        """A value of this iteration: what was copied, unless a guard may have left it out."""
        if not self.shape.guard:
            return self.total(self.last)
        copy = self.shape.copies[0]
        value = self.load_input(0, copy, self.last)
        return (
            value
            if copy.element == "f32"
            else self.value(f"arith.sitofp {value} : {copy.element} to f32")
        )

    def yield_values(self, name: str, distance: int, new: str) -> None:
        """A shift register: new -> 1 -> 2 -> …"""
        values = [new, *(f"{name}{n}" for n in range(1, distance))]
        following = dict(zip((f"{name}{n}" for n in range(1, distance + 1)), values, strict=True))
        self.carried = [
            (own, start, following.get(own, value), kind)
            for own, start, value, kind in self.carried
        ]

    def left(self) -> None:
        """Store the results of the loop."""
        row = "%o" if self.shape.outer else "%c0"
        for number, (_, _, _, kind) in enumerate(self.carried):
            value = f"%r#{number}"
            if kind == "index":
                bits = self.value(f"arith.index_cast {value} : index to i32")
                value = self.value(f"arith.sitofp {bits} : i32 to f32")
            at = self.value(f"arith.addi {row}, %c{number} : index")
            self.put(f"memref.store {value}, {self.rest}[{at}, {self.own}] : {self.row()}")
