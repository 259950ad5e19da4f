"""Structured and unstructured control flow as a flat list of instructions with jumps.

    scf.for                      i = lb; carried = inits; n = 0
                          head:  if not n < trips: goto end
                                 body; carried = yielded; i += step; n += 1; goto head
                          end:   results = carried

An instruction is a function of (thread, registers) that gives None, the number of the next
instruction, or BARRIER, ENTER (a function) or LEAVE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from helpers.second_machine import affine_text
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.machine import ENTER, LEAVE, YIELD, Frame
from helpers.second_machine.memory_order import Order, order_of
from helpers.second_machine.syntax import NotJudged, Operation, Region

Instruction = Callable[[Any, list], int | None]
Label = list[int]


class Writer:
    """Writes the instructions of one function."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.code: list[Instruction] = []
        self.size = 0
        self.names: dict[str, int] = {}
        # Registers that count the iterations of the loops around.
        self.counters: tuple[int, ...] = ()
        self.used: set[str] = set()

    def new(self) -> int:
        """A fresh register."""
        self.size += 1
        return self.size - 1

    def register(self, name: str) -> int:
        """The register of a value; blocks may come before those that dominate them."""
        if name not in self.names:
            self.names[name] = self.new()
        return self.names[name]

    def registers(self, names: list[str]) -> list[int]:
        """The registers of values."""
        return [self.register(name) for name in names]

    def emit(self, instruction: Instruction) -> None:
        """Add an instruction."""
        self.code.append(instruction)

    def place(self, label: Label) -> None:
        """The label stands here."""
        label.append(len(self.code))

    def jump(self, label: Label) -> None:
        """Go to a label."""
        self.emit(lambda t, r: label[0])

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copy registers, all at once."""
        if len(sources) != len(targets):
            raise NotJudged("values and arguments differ in number")
        if not sources:
            return
        if len(sources) == 1:
            source, target = sources[0], targets[0]

            def one(t: Any, r: list) -> None:
                r[target] = r[source]

            self.emit(one)
            return
        pairs = list(zip(sources, targets, strict=True))

        def several(t: Any, r: list) -> None:
            values = [r[source] for source, _ in pairs]
            for (_, target), value in zip(pairs, values, strict=True):
                r[target] = value

        self.emit(several)

    def constant(self, value: Any) -> int:
        """A register that holds a number from here on."""
        target = self.new()

        def put(t: Any, r: list) -> None:
            r[target] = value

        self.emit(put)
        return target

    def strong(self, op: Operation) -> None:
        """A random schedule may let others run before a strong access."""
        if not order_of(op).strong:
            return

        def perhaps(t: Any, r: list) -> int | None:
            t.spins = op.line
            return YIELD if t.world.yields() else None

        self.emit(perhaps)

    def acquired(self, op: Operation, order: Order) -> Order:
        """An order without the acquire if nobody uses what was read."""
        return order if self.used.intersection(op.results) else replace(order, acquire=False)

    def region(
        self, region: Region, arguments: list[int], leave: Callable[[Operation], None]
    ) -> None:
        """All blocks of a region; `leave` writes what its terminators do."""
        outer = dict(self.names)
        labels: dict[str, tuple[Label, list[int]]] = {}
        for number, block in enumerate(region.blocks):
            given = arguments if number == 0 else [self.new() for _ in block.arguments]
            self.names.update(zip((n for n, _ in block.arguments), given, strict=True))
            labels[block.label] = ([], given)
        for block in region.blocks:
            self.place(labels[block.label][0])
            for op in block.operations:
                if op.successors:
                    self._branch(op, labels)
                elif op.name in LEAVING:
                    leave(op)
                else:
                    self.operation(op)
        self.names = outer | {n: r for n, r in self.names.items() if n in outer}

    def operation(self, op: Operation) -> None:
        """One operation that is no terminator."""
        if op.name in STRUCTURES:
            STRUCTURES[op.name](self, op)
        else:
            self.program.plain(self, op)

    def _branch(self, op: Operation, labels: dict[str, tuple[Label, list[int]]]) -> None:
        operands = self.registers(op.operands)
        targets = [labels[label] for label in op.successors]
        if op.name == "cf.br":
            self.move(operands, targets[0][1])
            self.jump(targets[0][0])
        elif op.name == "cf.cond_br":
            _, yes, _ = op.integers("operandSegmentSizes")
            condition, way = operands[0], []
            self.emit(lambda t, r: None if r[condition] else way[0])
            self.move(operands[1 : 1 + yes], targets[0][1])
            self.jump(targets[0][0])
            self.place(way)
            self.move(operands[1 + yes :], targets[1][1])
            self.jump(targets[1][0])
        elif op.name == "cf.switch":
            self._switch(op, operands, targets)
        else:
            raise NotJudged(op.name)

    def _switch(self, op: Operation, operands: list[int], targets: list) -> None:
        _, first, *_ = op.integers("operandSegmentSizes")
        counts = op.integers("case_operand_segments")
        cases = op.integers("case_values")
        flag, start = operands[0], 1 + first
        for case, count, (label, arguments) in zip(cases, counts, targets[1:], strict=True):
            over: Label = []
            self.emit(lambda t, r, c=case, o=over: None if r[flag] == c else o[0])
            self.move(operands[start : start + count], arguments)
            self.jump(label)
            self.place(over)
            start += count
        self.move(operands[1 : 1 + first], targets[0][1])
        self.jump(targets[0][0])


LEAVING = frozenset(
    "scf.yield scf.condition affine.yield func.return gpu.return async_pipe.yield".split()
)


def function(program: Any, op: Operation) -> tuple[list[Instruction], int, list[int]]:
    """A function's instructions, the number of its registers, and those of its arguments."""
    writer = Writer(program)
    writer.used = _names(op)
    arguments = [writer.new() for _ in op.regions[0].blocks[0].arguments]

    def leave(end: Operation) -> None:
        given = writer.registers(end.operands)

        def back(t: Any, r: list) -> int:
            t.handed = [r[source] for source in given]
            return LEAVE

        writer.emit(back)

    writer.region(op.regions[0], arguments, leave)
    return writer.code, writer.size, arguments


def _names(op: Operation) -> set[str]:
    """The values that an operation, or one in its regions, uses."""
    inner = [o for region in op.regions for block in region.blocks for o in block.operations]
    return set(op.operands).union(*map(_names, inner))


def _spins(op: Operation) -> bool:
    """Whether a strong access stands in an operation."""
    inner = [o for region in op.regions for block in region.blocks for o in block.operations]
    return order_of(op).strong or any(map(_spins, inner))


def _for(w: Writer, op: Operation) -> None:
    lower, upper, step, *inits = w.registers(op.operands)
    _counted(w, op, lower, upper, step, inits, "unsignedCmp" in op.attributes)


def _affine_for(w: Writer, op: Operation) -> None:
    low, high, _ = op.integers("operandSegmentSizes")
    operands = w.registers(op.operands)
    bounds = []
    for name, given, best in (
        ("lowerBoundMap", operands[:low], max),
        ("upperBoundMap", operands[low : low + high], min),
    ):
        results, target = affine_text.read_map(op.attributes[name]), w.new()

        def put(t: Any, r: list, results=results, given=given, best=best, target=target) -> None:
            r[target] = best(f([r[g] for g in given]) for f in results)

        w.emit(put)
        bounds.append(target)
    step = w.constant(op.integer("step", 1))
    _counted(w, op, *bounds, step, operands[low + high :], False)


def _counted(
    w: Writer, op: Operation, lower: int, upper: int, step: int, inits: list[int], is_unsigned: bool
) -> None:
    (body,) = op.regions
    bits = types.element(body.blocks[0].arguments[0][1]).bits
    variable, counter, trips, carried = w.new(), w.new(), w.new(), [w.new() for _ in inits]
    head, end = [], []
    w.move([lower, *inits], [variable, *carried])

    def start(t: Any, r: list) -> None:
        r[counter] = 0
        r[trips] = _trips(r[lower], r[upper], r[step], bits, is_unsigned)

    w.emit(start)
    w.place(head)
    w.emit(lambda t, r: None if r[counter] < r[trips] else end[0])

    def again(yielded: Operation) -> None:
        w.move(w.registers(yielded.operands), carried)

        def advance(t: Any, r: list) -> int:
            r[variable] = types.wrap(r[variable] + r[step], bits)
            r[counter] += 1
            return head[0]

        w.emit(advance)

    outer, w.counters = w.counters, (*w.counters, counter)
    w.region(body, [variable, *carried], again)
    w.counters = outer
    w.place(end)
    w.move(carried, w.registers(op.results))


def _trips(lower: int, upper: int, step: int, bits: int, is_unsigned: bool) -> int:
    """(upper - lower - 1) / step + 1 if lower < upper, also where the last sum wraps."""
    if is_unsigned:
        lower, upper, step = (types.unsigned(x, bits) for x in (lower, upper, step))
    if step <= 0:
        raise NotJudged("a loop with a step that is not positive")
    return (upper - lower - 1) // step + 1 if lower < upper else 0


def _while(w: Writer, op: Operation) -> None:
    before, after = op.regions
    carried = [w.new() for _ in op.operands]
    passed = [w.new() for _ in op.results]
    counter, head, end = w.new(), [], []
    spins, line = _spins(op), op.line
    w.move(w.registers(op.operands), carried)

    def start(t: Any, r: list) -> None:
        r[counter] = 0

    w.emit(start)
    w.place(head)

    def decide(op: Operation) -> None:
        condition, *values = w.registers(op.operands)
        flag = w.new()
        w.move([condition, *values], [flag, *passed])
        w.emit(lambda t, r: None if r[flag] else end[0])

    def again(op: Operation) -> None:
        w.move(w.registers(op.operands), carried)

        def count(t: Any, r: list) -> int | None:
            r[counter] += 1
            t.spins = line
            return YIELD if spins else None

        w.emit(count)
        w.jump(head)

    outer, w.counters = w.counters, (*w.counters, counter)
    w.region(before, carried, decide)
    w.region(after, passed, again)
    w.counters = outer
    w.place(end)
    w.move(passed, w.registers(op.results))


def _into(w: Writer, results: list[int], end: Label) -> Callable[[Operation], None]:
    def leave(op: Operation) -> None:
        w.move(w.registers(op.operands), results)
        w.jump(end)

    return leave


def _if(w: Writer, op: Operation) -> None:
    (condition,), results = w.registers(op.operands), w.registers(op.results)
    otherwise, end = [], []
    w.emit(lambda t, r: None if r[condition] else otherwise[0])
    w.region(op.regions[0], [], _into(w, results, end))
    w.place(otherwise)
    if op.regions[1].blocks:
        w.region(op.regions[1], [], _into(w, results, end))
    w.place(end)


def _index_switch(w: Writer, op: Operation) -> None:
    (flag,), results, end = w.registers(op.operands), w.registers(op.results), []
    for case, region in zip(op.integers("cases"), op.regions[1:], strict=True):
        over: Label = []
        w.emit(lambda t, r, c=case, o=over: None if r[flag] == c else o[0])
        w.region(region, [], _into(w, results, end))
        w.place(over)
    w.region(op.regions[0], [], _into(w, results, end))
    w.place(end)


def _execute_region(w: Writer, op: Operation) -> None:
    end: Label = []
    w.region(op.regions[0], [], _into(w, w.registers(op.results), end))
    w.place(end)


def _call(w: Writer, op: Operation) -> None:
    program, name = w.program, op.attributes["callee"].lstrip("@").strip('"')
    operands, results = w.registers(op.operands), w.registers(op.results)
    counters, line = w.counters, op.line

    def enter(t: Any, r: list) -> int:
        code, size, arguments = program.function(name)
        values = [None] * size
        for place, source in zip(arguments, operands, strict=True):
            values[place] = r[source]
        here = (*t.frames[-1].path, line, *(r[c] for c in counters))
        t.entering = Frame(code, values, results=results, path=here)
        return ENTER

    w.emit(enter)


STRUCTURES: dict[str, Callable[[Writer, Operation], None]] = {
    "scf.for": _for,
    "affine.for": _affine_for,
    "scf.while": _while,
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _execute_region,
    "func.call": _call,
}
