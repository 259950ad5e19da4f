"""Writes the nest around loops again, for warps that run a part of them only.

    scf.for %tile = … iter_args(%sum, %row) {        scf.for %tile = … iter_args(%row, slot, phase) {
      scf.for %k = … { one loop }                      what these warps run of it
      store                                  -->
      scf.for %j = … { another one }                   what they run of that
    }                                                }

What the loops need is computed again, and the state of each ring goes through the ops around its loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    clone,
    create,
    operations,
    terminator,
)
from mlir_async_pipe.bindings.structured_ops import at_end_of, write_for
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.pipeliner.expand.write.carried_ring import RingPath
from mlir_async_pipe.pipeliner.plan.role_nest import Nest


class NestWriter:
    """Writes one nest; `outside` says what the values of the input are in it."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.outside: dict[Value, Value] = {}

    def write_at_end(
        self, region: Any, moved: tuple[Operation, ...], ways: list[RingPath], state: list[Value]
    ) -> None:
        """Write what is needed of `moved` at the end of a region; a way writes its loop at an insertion
        point, which comes before the values of the state."""
        self._block(moved, ways, dict(enumerate(state)), at_end_of(region))

    def here(self, value: Value) -> Value:
        """What a value of the input is in the nest."""
        return self.outside.get(value, value)

    def begin_loop(
        self, op: Operation, numbers: tuple[int, ...], state: list[Value], ip: Any
    ) -> tuple[Operation, Any]:
        """A loop with the bounds of `op` that carries those of its values, and `state`."""
        bounds = [self.here(value) for value in list(op.operands)[:3]]
        initial = [self.here(op.operands[3 + number]) for number in numbers]
        kept = {
            name: value
            for name, value in attributes_of(op).items()
            if name not in names.KNOWN_NAMES
        }
        made = write_for(bounds, [*initial, *state], ip, op.location, kept)
        old, new = op.regions[0].blocks[0].arguments, made.regions[0].blocks[0].arguments
        self.outside[old[0]] = new[0]
        for place, number in enumerate(numbers):
            self.outside[old[number + 1]] = new[place + 1]
        return made, ir.InsertionPoint(made.regions[0].blocks[0])

    def end_loop(
        self,
        op: Operation,
        made: Operation,
        numbers: tuple[int, ...],
        following: list[Value],
        state: list[Value],
        ip: Any,
    ) -> list[Value]:
        """The end of its body, which hands on such values; returns the state after it."""
        create("scf.yield", [*following, *state], ip=ip, loc=op.location)
        for place, number in enumerate(numbers):
            self.outside[op.results[number]] = made.results[place]
        return list(made.results)[-len(state) :]

    def _block(
        self, ops: Sequence[Operation], ways: list[RingPath], held: dict[int, Value], ip: Any
    ) -> None:
        """Compute again what is needed of a block; `held` has each value of the state, before and then
        after."""
        loops = {op: list(group) for op, group in groupby(ways, lambda way: way.ops[0])}
        for op in ops:
            if op in loops:
                self._op(op, loops[op], held, ip)
            elif op in self.nest.ops:
                clone(op, self.outside, ip)

    def _op(self, op: Operation, ways: list[RingPath], held: dict[int, Value], ip: Any) -> None:
        numbers = tuple(dict.fromkeys(n for way in ways for n in way.values))
        state = [held[number] for number in numbers]
        if len(ways[0].ops) == 1:
            after = ways[0].write(ip, *state)
        else:
            inner = [way._replace(ops=way.ops[1:]) for way in ways]
            write = self._branch if op.name == "scf.if" else self._loop
            after = write(op, inner, dict(zip(numbers, state, strict=True)), ip)
        held.update(zip(numbers, after, strict=True))

    def _loop(
        self, op: Operation, ways: list[RingPath], held: dict[int, Value], ip: Any
    ) -> list[Value]:
        numbers = self.nest.advanced.get(op, ())
        made, body = self.begin_loop(op, numbers, list(held.values()), ip)
        arguments = list(made.regions[0].blocks[0].arguments)[-len(held) :]
        inside = dict(zip(held, arguments, strict=True))
        block = op.regions[0].blocks[0]
        self._block(operations(block), ways, inside, body)
        yielded = terminator(block).operands
        following = [self.here(yielded[number]) for number in numbers]
        return self.end_loop(op, made, numbers, following, list(inside.values()), body)

    def _branch(
        self, op: Operation, ways: list[RingPath], held: dict[int, Value], ip: Any
    ) -> list[Value]:
        kinds = [value.type for value in held.values()]
        condition = [self.here(op.operands[0])]
        made = create("scf.if", condition, kinds, regions=2, ip=ip, loc=op.location)
        for old, new in zip(op.regions, made.regions, strict=True):
            blocks = list(old.blocks)
            inside, body = dict(held), ir.InsertionPoint(new.blocks.append())
            own = [way for way in ways if way.ops[0].block in blocks]
            if own:
                self._block(operations(blocks[0]), own, inside, body)
            create("scf.yield", list(inside.values()), ip=body, loc=op.location)
        return list(made.results)
