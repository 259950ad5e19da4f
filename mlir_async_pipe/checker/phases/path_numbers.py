"""What value ops give on a path: numbers, places and descriptors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import defining_op, is_block_argument
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.amounts import AMOUNTS, Amount, EachThread, is_address, of_array
from mlir_async_pipe.checker.phases.byte_places import (
    BytePlace,
    ByteRange,
    Value,
    region_of_view,
    root_place,
    value_of,
    with_answers,
)
from mlir_async_pipe.checker.phases.cluster_blocks import ClusterBlocks
from mlir_async_pipe.checker.phases.op_effects import OpEffects, columns_of
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WARP
from mlir_async_pipe.checker.poll_loops import AWAITED
from mlir_async_pipe.checker.step_graph import Constant, Flow, Run, is_integer, is_memory
from mlir_async_pipe.checker.thread_divergence import Divergence, by_thread
from mlir_async_pipe.facts.values.alignment import divisor, value_alignment
from mlir_async_pipe.facts.values.domains import Typed, typed
from mlir_async_pipe.facts.values.integer_ops import integer_constant, is_size
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import given_place, is_pointer, root_of
from mlir_async_pipe.facts.values.thread_numbers import numbers_of_id, thread_ids
from mlir_async_pipe.vocabulary import accesses, row_of, use_of
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.launch_ids import ELECT, MAPA, LaunchId, launch_id
from mlir_async_pipe.vocabulary.mbarrier_ops import PARITY_OF_STATE
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OPS,
    ADDRESSES_IN,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    SIZE_OPS,
    VIEW_OPS,
)
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator
from mlir_async_pipe.vocabulary.shuffles import SHUFFLES
from mlir_async_pipe.vocabulary.tensor_memory import is_tensor_pointer

# Numbers of mbarrier groups follow those of roots.
FIRST_GROUP = 1 << 20

# Operators of forms that ask nothing of what a path knows; those that do of bits only.
_SUMS, _PARTS = frozenset({"add", "sub", "mul", "shl"}), frozenset({"or_", "cast"})

Evaluation = Callable[[Spot], Value]
Rule = Evaluation | None


@dataclass
class PathNumbers:
    """The values of one kernel whose block has `size` threads; of an instance of it the unknowns in
    `chosen` are these numbers. `unknowns`: those that were asked for; `groups`:
    those of mbarriers by the op and frame that makes them. `blocks`: those of a cluster
    that have to do with each other."""

    flow: Flow
    effects: OpEffects
    size: tuple[int, int, int]
    chosen: Mapping[Atom, int] = field(default_factory=dict)
    unknowns: dict[int, Atom] = field(default_factory=dict)
    blocks: ClusterBlocks = field(default_factory=ClusterBlocks)
    _given: dict[tuple[int, int], Value] = field(default_factory=dict)
    groups: dict[Any, int] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return prod(self.size) * self.blocks.count

    def given(self, number: int, rank: int = 0) -> Value:
        """What no step makes, in the block `rank` of its cluster: a constant, an argument, an id of the launch."""
        if (number, rank) not in self._given:
            self._given[number, rank] = self._number_of(number, self._find(number, rank))
        return self._given[number, rank]

    def _number_of(self, number: int, value: Value) -> Value:
        """A value that the kernel is given: as it is chosen, or an unknown."""
        if not isinstance(value, Form):
            return value
        ((atom, factor),) = value.terms
        self.unknowns[number] = atom
        return factor * self.chosen[atom] + value.constant if atom in self.chosen else value

    def divisors(self) -> dict[Atom, int]:
        """By which constants unknowns are divided."""
        found: dict[Atom, int] = {}
        for run in self.flow.runs():
            if is_operator(run.name, "div"):
                atom, by = self.unknowns.get(run.operands[0]), self.given(run.operands[1])
                if atom and isinstance(by, int):
                    found[atom] = max(by, found.get(atom, 1))
        return found

    def _find(self, number: int, rank: int) -> Value:
        frame, value = self.flow.values[number]
        if isinstance(value, Constant):
            return value.value
        if not hasattr(value, "type"):
            return None
        constant = integer_constant(value)
        if constant is not None:
            return constant
        made = defining_op(value)
        if made is not None and made.name in (POINTER_OF_ADDRESS, MAPA):
            return None
        if is_memory(value.type):
            root, at = root_of(value), self.effects.root(value, frame)
            if root.kind == "unknown" and is_pointer(value):
                # It may lead to where another pointer leads.
                return None
            if root.space == "workgroup":
                at = self.blocks.own(at, rank)
            return root_place(at, value.type) if root.value == value else None
        found = launch_id(value)
        if found is not None:
            return self._id(found, rank)
        if frame or not is_integer(value.type) or not is_block_argument(value):
            return None
        holder = ir.BlockArgument(value).owner.owner.operation
        if not holder.name.endswith(("func", "launch")):
            return None
        kind = "bit" if str(value.type) == "i1" else "size" if is_size(value) else "unknown"
        return forms.of_atom(Atom(kind, number))

    def _id(self, found: LaunchId, rank: int) -> Amount:
        if self.blocks.threads and (known := _id_in_cluster(found, self.blocks, rank)) is not None:
            return known
        linear = np.tile(np.arange(prod(self.size)), self.blocks.count)
        numbers = numbers_of_id(found, thread_ids(linear, self.size), self.size, WARP)
        unknown = forms.of_atom(Atom("size", (found.kind, found.axis)))
        return unknown if numbers is None else of_array(numbers)

    # Ops ----------------------------------------------------------------------------------

    def prepare(self, run: Run) -> Rule:
        """Read an op once; what it gives makes result 0. None: its results are not known."""
        op = run.op
        if not run.results:
            return None
        use = use_of(op)
        if use == "handle":
            return self._handle(run)
        if use == "test" and AWAITED not in op.attributes:
            return partial(self.effects.answer, run)
        if use == "arrive":
            return partial(self.effects.token, run)
        row = row_of(op)
        if row.swizzled and not row.accesses:
            return lambda spot: _described(spot.get(run.operands[0]), op.operands[0].type)
        if op.name == ELECT:
            return self._elected
        if op.name in OPERATORS and OPERATORS[op.name].method != "split":
            return _operation(run, typed(op))
        if op.name == POINTER_OF_ADDRESS and is_tensor_pointer(op.results[0]):
            return lambda spot: spot.get(run.operands[0])
        if _loads_the_number(op):
            return self._loaded(run)
        if op.name in ADDRESS_OPS:
            alignment = value_alignment(root_of(op.operands[0]).value, Arithmetic())
            return partial(_address, op, run.operands[0], alignment)
        if op.name in (*VIEW_OPS, *POINTER_STEPS, *ADDRESSES_IN):
            return lambda spot: value_of(op, [spot.get(n) for n in run.operands])
        if op.name in SIZE_OPS:
            return lambda spot: self._size(run, spot)
        if op.name in SHUFFLES:
            return lambda spot: _shuffled(spot.get(run.operands[SHUFFLES[op.name].operand]))
        if op.name in (*CAST_OPS, PARITY_OF_STATE) and len(run.operands) == 1:
            return lambda spot: spot.get(run.operands[0])
        if op.name == MAPA:
            number = self.effects.number(run)
            place, rank = run.operands
            return lambda spot: self.blocks.named(spot.get(place), spot.get(rank), number)
        is_known = is_memory(op.results[0].type) and self.given(run.results[0]) is not None
        if is_known or launch_id(op.results[0]) is not None:
            return lambda spot: self.given(run.results[0], self.blocks.rank_of(spot.mask))
        return None

    def parts(self, run: Run) -> list[Rule] | None:
        """One rule for each result of an op that splits a number; None for other ops."""
        op = run.op
        if op.name not in OPERATORS or OPERATORS[op.name].method != "split":
            return None
        one = typed(op)
        if one.detail is None:
            return None

        def rule(number: int) -> Evaluation:
            def evaluate(spot: Spot) -> Value:
                values = [_amount(spot.get(n)) for n in run.operands]
                return AMOUNTS.part(one, one.detail[number], values, spot.known)

            return evaluate

        return [rule(number) for number in range(len(run.results))]

    def loads_one(self, run: Run) -> bool:
        """Whether all threads load one number: from a place that they agree on, where nobody writes. In a cluster blocks have
        places of their own, but for what the kernel is given."""
        if run.makes_values or not run.results:
            return False
        if not self.effects.sites.loads_constant(run.op, run.frame):
            return False
        if self.blocks.count > 1 and given_place(accesses(run.op)[0].memory) is None:
            return False
        return self._divergence.differing.isdisjoint(run.operands)

    def loads_by_root(self, run: Run) -> bool:
        """Whether operands alone say which place an op loads from: a view has strides that they do not tell."""
        memory = accesses(run.op)[0].memory
        return is_pointer(memory) or (not run.frame and root_of(memory).value == memory)

    @cached_property
    def _divergence(self) -> Divergence:
        # Not what threads load alike from workgroup memory: that rests on a proof of its own.
        return by_thread(self.flow, self.effects.sites.loads_constant)

    def _loaded(self, run: Run) -> Evaluation:
        """A number that is loaded is known if it says where columns of tensor memory begin."""
        root = self.effects.root(accesses(run.op)[0].memory, run.frame)

        def evaluate(spot: Spot) -> Value:
            taken = spot.memory.tensor.columns_at(root)
            return None if taken is None else columns_of(taken)

        return evaluate

    def _handle(self, run: Run) -> Evaluation:
        if not run.operands:
            group = self.groups.setdefault((run.op, run.frame), FIRST_GROUP + len(self.groups))
            self.effects.bounds.add_group(group, run)
            return lambda spot: BytePlace(
                self.blocks.own(group, self.blocks.rank_of(spot.mask)), 0, 0
            )

        def one(spot: Spot) -> Value:
            group, index = spot.get(run.operands[0]), spot.get(run.operands[1])
            if not isinstance(group, BytePlace) or not isinstance(index, int) or group.low is None:
                return None
            at = group.low + 8 * index
            return BytePlace(group.root, at, at, at)

        return one

    def _size(self, run: Run, spot: Spot) -> Value:
        """A size of a memref, which all threads see alike, and all ops that ask for it."""
        index = spot.get(run.operands[1])
        if not isinstance(spot.get(run.operands[0]), BytePlace) or not isinstance(index, int):
            return None
        size = forms.of_atom(Atom("size", ("dim", run.operands[0], index)))
        if not is_block_argument(run.op.operands[0]):
            return size
        return self._number_of(run.results[0], size)

    def _elected(self, spot: Spot) -> Value:
        """The last active lane of each warp: nobody says that it is the first, which kernels choose by its number."""
        mask = spot.threads()
        chosen = np.zeros(self.threads, np.int64)
        for first in range(0, self.threads, WARP):
            lanes = mask >> first & LANES
            if lanes:
                chosen[first + lanes.bit_length() - 1] = 1
        return of_array(chosen)


def _id_in_cluster(found: LaunchId, blocks: ClusterBlocks, rank: int) -> Amount:
    """An id that the blocks of a cluster do not share, or its size; None for all others."""
    along, at = blocks.size[found.axis], blocks.index(rank)[found.axis]
    match found.kind:
        case "block":
            cluster = forms.of_atom(Atom("size", ("cluster", found.axis)))
            return forms.add(forms.scale(cluster, along), Form(at))
        case "grid_size":
            return forms.scale(forms.of_atom(Atom("size", ("cluster_count", found.axis))), along)
        case "cluster_block":
            return at
        case "cluster_size":
            return along
        case "cluster_rank":
            return rank
        case "cluster_blocks":
            return blocks.count
    return None


def _loads_the_number(op: Any) -> bool:
    """Whether an op loads the one number that a memref of workgroup memory holds."""
    found = accesses(op)
    if len(found) != 1 or found[0].kind != "read" or not is_integer(op.results[0].type):
        return False
    kind = str(found[0].memory.type)
    return kind.startswith(("memref<i32", "memref<1xi32")) and row_of(op).described


def _described(place: Value, kind: Any) -> ByteRange | None:
    """What `warpgroup.generate.descriptor` makes of a view."""
    return region_of_view(place, kind) if isinstance(place, BytePlace) else None


def _amount(value: Value) -> Amount:
    return value if isinstance(value, int | Form | EachThread) else None


def _operation(run: Run, op: Typed) -> Evaluation:
    """An integer op, or a choice between views: the same of the same operands, unless it asks what the path knows."""
    found: dict[tuple[Value, ...], Value] = {}
    method = op.row.method
    mask = _whole_mask(run.op) if method == "and_" else None
    asks = method not in _SUMS and (method not in _PARTS or op.bits == 1)

    def evaluate(spot: Spot) -> Value:
        values = tuple([spot.get(number) for number in run.operands])
        if values in found:
            return found[values]
        made = computed(values, spot)
        if made is None:
            made = with_answers(lambda each: computed(tuple(each), spot), values)
        if not asks or not any(isinstance(value, Form) for value in values):
            found[values] = made
        return made

    def computed(values: tuple[Value, ...], spot: Spot) -> Value:
        if method == "select" and any(_amount(value) is not value for value in values[1:]):
            condition = values[0]
            if isinstance(condition, Form):
                condition = int(spot.known.at_least_one(condition))
            return values[1 if condition & 1 else 2] if isinstance(condition, int) else None
        if not op.scalar:
            return None
        if mask is not None and isinstance(values[0], Form) and is_address(values[0]):
            values = (values[0], mask)
        return AMOUNTS.evaluate(op, [_amount(value) for value in values], spot.known)

    return evaluate


def _whole_mask(op: Any) -> int | None:
    """The mask of an `and` with the low bits that it leaves out as they are 0 anyway: of addresses that are multiples
    of 1024 compilers take `>> 4 & 0x3fc0`, and mean `& 0x3fff`. None where it leaves out none."""
    mask = integer_constant(op.operands[1])
    low = 0 if mask is None or mask <= 0 else (mask & -mask) - 1
    return mask + low if mask and low and not divisor(op.operands[0], Arithmetic()) & low else None


def _address(op: Any, pointer: int, alignment: int, spot: Spot) -> Value:
    """The address of memory whose root is aligned to so many bytes."""
    place = spot.get(pointer)
    if isinstance(place, BytePlace):
        spot.known.aligned[Atom("address", place.root)] = alignment
    return value_of(op, [place])


def _shuffled(value: Value) -> Value:
    """What the lanes of a warp hand around is the same if they all have the same number."""
    if isinstance(value, EachThread):
        rest = np.repeat(value.numbers[-1], -len(value.numbers) % WARP)
        lanes = np.concatenate((value.numbers, rest)).reshape(-1, WARP)
        return value if (lanes == lanes[:, :1]).all() else None
    return _amount(value)
