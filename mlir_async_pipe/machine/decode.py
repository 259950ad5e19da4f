"""Turns functions of a module into instructions, once, before anything runs.

Questions to the bindings are dear beside what the machine does (docs/speed.md), so every one is
asked here. What stays is plain Python: no handle of the module lives longer than the decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    SYMBOL_TABLES,
    ancestors,
    as_kind,
    captured,
    defining_op,
    has_body,
    integer_attribute,
    is_function,
    is_kernel,
    operations,
    parent,
    symbol_name,
    terminator,
    walk,
)
from mlir_async_pipe.facts.costs.cost_model import kind_of_op, own_cycles
from mlir_async_pipe.facts.flow.algorithms import by_loops, natural_loops
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.machine.fifos import Marks, Queues
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import NONE, Array, merge
from mlir_async_pipe.machine.memory import MemRefShape, memref_shape
from mlir_async_pipe.machine.terms import is_array
from mlir_async_pipe.machine.timeline import Event, TraceEntry
from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.diagnostics import MachineError, Place
from mlir_async_pipe.vocabulary import Queue, Row, operand_groups, order_of, queue_of, row_of
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, EXIT_OPS, SCOPE
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, layout_of
from mlir_async_pipe.vocabulary.memory_names import BY_VALUE
from mlir_async_pipe.vocabulary.op_table import CALL, intrinsic_name, needed_where
from mlir_async_pipe.vocabulary.ptx_rows import instruction_of
from mlir_async_pipe.vocabulary.rows import BULK_STORE, UNORDERED, WGMMA, MemoryOrder
from mlir_async_pipe.vocabulary.shuffles import SHUFFLES, made_together_by
from mlir_async_pipe.vocabulary.tensor_memory import is_loaded

# The table ---------------------------------------------------------------------------------------
#
# The table op name -> semantics, filled by the files in `dialects/`.
#
# A semantics is a *builder*: called once for each op of the program with its decoded site, it
# returns the function that executes the op for all threads of a unit, every time it is reached.
#
#     @semantics("arith.addi", "index.add")
#     def add(site):
#         kind = site.result_kind()
#         return lambda unit, left, right: kind.settle(left + right)


Execute = Callable[..., Any]
Builder = Callable[[Any], Execute]
SomeBuilder = TypeVar("SomeBuilder", bound=Callable[..., Execute])

SEMANTICS: dict[str, Builder] = {}
_WORD = re.compile(r"\w+")


def semantics(*names: str) -> Callable[[SomeBuilder], SomeBuilder]:
    """Decorator: this builder gives the semantics of the ops called `names`."""

    def remember(builder: SomeBuilder) -> SomeBuilder:
        SEMANTICS.update(dict.fromkeys(names, builder))
        return builder

    return remember


@dataclass(eq=False)
class Site:
    """One op of the program: what findings print, and what its builder may ask.

    `op` is the bindings' op while decoding and None afterwards. `cost` are the cycles that the
    input gives it, and `kind` is under what the cost model finds them else.
    """

    number: int
    name: str
    place: Place
    row: Row
    is_async: bool
    op: Any
    decoder: Decoder
    cost: int | None
    kind: str
    order: MemoryOrder = UNORDERED
    has_users: bool = False
    is_shuffled: bool = False
    # Whether the op only computes, loads or stores, and no other thread's values are in its.
    is_alone: bool = False
    # The condition under which lanes have need of what it loads, and whether it holds then or not.
    needed: tuple[int, bool] | None = None
    # Bytes of which its addresses are multiples.
    alignment: int = 1

    @property
    def is_strong(self) -> bool:
        """Whether the op is a volatile or an atomic access of more than its thread, which do not race
        with each other."""
        strong = self.order.strong and self.order.scope != "thread"
        return self.row.adds or (strong and bool(self.row.accesses))

    @property
    def reads_flag(self) -> bool:
        """Whether somebody uses what a strong access read: else nothing depends on its order."""
        return self.is_strong and self.has_users

    @property
    def meets(self) -> str:
        """Whose threads meet at a barrier that is not one of all threads of the block: "block" for some of its threads."""
        return "" if self.row.meeting is None else self.row.meeting.of

    @property
    def needs_clocks(self) -> bool:
        """Whether the op meets others through mbarriers, or goes past the generic proxy."""
        row = self.row
        meets = self.meets in ("block", "cluster") or bool(row.phase or row.tensor)
        return meets or row.queue in (WGMMA, BULK_STORE)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An integer attribute, `default` if the op lacks it."""
        value = integer_attribute(self.op, name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        return name in self.op.attributes

    def text(self, name: str, default: str = "") -> str:
        return str(self.op.attributes[name]) if self.has(name) else default

    def word(self, name: str, default: str = "") -> str:
        """The last word of an attribute: `xor` of `#gpu<shuffle_mode xor>`, `add` of `#vector.kind<add>`."""
        *_, last = default, *_WORD.findall(self.text(name))
        return last

    def integers(self, name: str) -> tuple[int, ...]:
        """An array attribute (dense array or list) as integers, () if the op lacks it."""
        if not self.has(name):
            return ()
        attribute = self.op.attributes[name]
        for view in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr):
            if (entries := as_kind(view, attribute)) is not None:
                return tuple(map(int, entries))
        entries = ir.ArrayAttr(attribute)
        return tuple(int((as_kind(ir.IntegerAttr, n) or ir.BoolAttr(n)).value) for n in entries)

    def segments(self) -> tuple[int, ...]:
        return self.integers("operandSegmentSizes")

    def result_type(self, number: int = 0) -> Any:
        return self.op.results[number].type

    def operand_type(self, number: int) -> Any:
        return self.op.operands[number].type

    def result_kind(self) -> Kind:
        return kind_of(self.result_type(), self.op)

    def operand_kind(self, number: int = 0) -> Kind:
        return kind_of(self.operand_type(number), self.op)

    def region(self, number: int = 0) -> DecodedRegion:
        return self.decoder.region(self.op.regions[number])

    def captures(self) -> tuple[int, ...]:
        """The values that the op's regions use from outside."""
        return tuple(self.decoder.key(value) for value in captured(self.op))

    def queue(self) -> Queue:
        """The queue that the op issues to, commits to or waits for, on the target if there is
        one; raises MachineError (dynamic-queue) where that is not constant."""
        queue = queue_of(self.op, self.decoder.target) or self.row.queue
        if not isinstance(queue, Queue):
            raise MachineError(
                f"the queue of '{self.name}' is not a constant", code="dynamic-queue", at=self.place
            )
        return queue

    def unsupported(self, why: str) -> MachineError:
        """The error for an op, or a form of it, that has no semantics here."""
        return MachineError(
            f"the machine has no semantics for '{self.name}': {why}",
            code="unsupported-op",
            at=self.place,
        )


def _watched(site: Site, execute: Execute) -> Execute:
    """The same, after a look at operands that loads from tensor memory may not have filled yet."""

    def watched(unit: Any, *values: Any) -> Any:
        for operation in unit.queues.pending():
            filled = operation.registers
            if filled is not None and any(
                value is filled or getattr(value, "base", None) is filled for value in values
            ):
                unit.report("read-in-flight", site, other=operation.site)
        return execute(unit, *values)

    return watched


@dataclass(eq=False)
class DecodedInstruction:
    """One op ready to run: value keys, and its semantics."""

    site: Site
    operands: tuple[int, ...]
    results: tuple[int, ...]
    execute: Execute


@dataclass(eq=False)
class DecodedBlock:
    """A block; `leave` holds the operands that its terminator hands out, `jump` its branch."""

    arguments: tuple[int, ...]
    instructions: list[DecodedInstruction] = field(default_factory=list)
    leave: tuple[int, ...] = ()
    jump: DecodedInstruction | None = None


@dataclass(eq=False)
class DecodedRegion:
    """The blocks of a region in the order of reconvergence: of those that lanes have to run, the first one is run."""

    blocks: list[DecodedBlock]
    # The loops that branches between blocks make, by the numbers of their heads.
    loops: dict[int, DecodedLoop] = field(default_factory=dict)
    # Whether a strong access stands in it, or a poll of an mbarrier: its loops let other threads run after each iteration.
    polls: bool = False
    # Whether all of its ops are: what one thread does in it depends on no other, and waits for nothing.
    is_alone: bool = False


# Pairs of integers, as keys of values, whose comparison may end a loop.
Pairs = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class DecodedLoop:
    """The numbers of a loop's blocks and of its head, and what may end it."""

    head: int
    blocks: frozenset[int]
    compared: Pairs


@dataclass(eq=False)
class Function:
    """A function: its body, the types of its arguments, and the memory that it declares.

    Of a gpu.func's block arguments the first are arguments; then come the workgroup
    attributions, `workgroup_count` many, and the private ones. `by_value`: see `bytes_by_value`.
    """

    name: str
    site: Site
    body: DecodedRegion
    argument_types: tuple[Any, ...]
    attributions: tuple[MemRefShape, ...]
    workgroup_count: int
    by_value: tuple[int, ...]
    shared_bytes: int | None


def block_types(function: Any) -> tuple[tuple[Any, ...], int]:
    """The types of the values that a function's body is handed, and how many of them are its arguments."""
    types = tuple(value.type for value in function.regions[0].blocks[0].arguments)
    if function.name != "gpu.func":
        return types, len(types)
    written = ir.TypeAttr(function.attributes["function_type"]).value
    return types, len(ir.FunctionType(written).inputs)


def _by_reconvergence(blocks: list[Any]) -> list[Any]:
    """Where paths come together after all that lead there, a loop before what follows it; else as they are written."""
    if len(blocks) < 3:
        return blocks
    place = {block: number for number, block in enumerate(blocks)}
    after = [
        sorted({place[target] for target in terminator(block).successors}, reverse=True)
        for block in blocks
    ]
    order = by_loops([0], after.__getitem__)
    return [blocks[number] for number in (*order, *sorted({*place.values()} - {*order}))]


# What does not ask for the sign of an integer, which an i4 has not here (`kinds`).
_UNSIGNED = frozenset((
    *(f"arith.{name}" for name in (
        "addi andi constant divui extui index_castui maxui minui muli ori remui select shli shrui subi trunci uitofp xori".split()
    )),
    *"cf.br cf.cond_br func.call func.return memref.load memref.store scf.condition scf.if scf.while scf.yield".split(),
))  # fmt: skip
_SIGNED_PREDICATES = range(2, 6)


def _check_unsigned(op: Any) -> None:
    """Raise MachineError (unsupported-type) for an op on i4 that may ask for its sign."""
    if op.name == "arith.cmpi":
        known = integer_attribute(op, "predicate") not in _SIGNED_PREDICATES
    elif op.name == "scf.for":
        known = str(op.operands[0].type) != "i4"
    else:
        known = op.name in _UNSIGNED
    if not known:
        raise MachineError(
            f"the machine has no semantics for '{op.name}' of 4 bits",
            code="unsupported-type",
            at=op,
        )


class Decoder:
    """Decodes the functions of one module; `sites` numbers every op that it saw.

    With a `target`, abstract queues are the chip's. `around` makes of the semantics of each op what is executed.
    """

    def __init__(
        self,
        module: Any,
        target: Any = None,
        around: Callable[[Site, Execute], Execute] | None = None,
    ) -> None:
        self.module = module
        self.target = target
        self.around = around
        self.sites: list[Site] = []
        self._symbols: dict[str, list[Any]] = {}
        for op in walk(module):
            if name := symbol_name(op):
                self._symbols.setdefault(name, []).append(op)
        self._keys: dict[Any, int] = {}
        self._functions: dict[Any, Function] = {}
        self._blocks: dict[Any, int] = {}

    def key(self, value: Any) -> int:
        return self._keys.setdefault(value, len(self._keys))

    def symbol(self, name: str, at: Any) -> Any:
        """What an op means by `name`: the symbol of the nearest module around it; None if there is
        none."""
        found = self._symbols.get(name, [])
        around = [op for op in ancestors(at) if op.name in SYMBOL_TABLES] if len(found) > 1 else []
        nearest = (op for table in around for op in found if parent(op) == table)
        return next(nearest, found[-1] if found else None)

    def entry(self, name: str) -> Any:
        """The function called `name`, the kernel where a function of the host is called so too; None
        if there is none. Raises MachineError (no-function) where several are."""
        found = [op for op in self._symbols.get(name, []) if is_function(op)]
        found = [op for op in found if is_kernel(op)] or found
        found = [op for op in found if has_body(op)] or found
        if len(found) > 1:
            raise MachineError(
                f"{len(found)} functions are called '{name}'",
                code="no-function",
                at=found[1],
                notes=(("another one", found[0]),),
                advice="run it in a module of its own",
            )
        return found[0] if found else None

    def function(self, name: str, at: Any = None) -> Function:
        """The function that `at` calls `name`, without it the one to run; raises MachineError
        (no-function, no-body)."""
        op = self.entry(name) if at is None else self.symbol(name, at)
        if op in self._functions:
            return self._functions[op]
        if op is None:
            raise MachineError(
                f"no function '{name}' in this module",
                code="no-function",
                at=at,
                advice=did_you_mean(
                    name,
                    (known for known, ops in self._symbols.items() if any(map(is_function, ops))),
                    "it has",
                ),
            )
        if not has_body(op):
            raise MachineError(f"function '{name}' has no body to run", code="no-body", at=at)
        site = self.site(op)
        types, count = block_types(op)
        # Entered before the body is decoded, so that recursive calls find it.
        function = Function(
            name,
            site,
            DecodedRegion([]),
            types[:count],
            tuple(memref_shape(attribution, op) for attribution in types[count:]),
            integer_attribute(op, "workgroup_attributions") or 0,
            bytes_by_value(op),
            integer_attribute(op, "async_pipe.dynamic_shared_bytes"),
        )
        self._functions[op] = function
        function.body = self.region(op.regions[0])
        return function

    def site(self, op: Any) -> Site:
        if any(str(value.type) == "i4" for value in (*op.operands, *op.results)):
            _check_unsigned(op)
        row = row_of(op)
        is_async = op.name == SCOPE or (bool(row.accesses) and row.asynchronous(op))
        needed = needed_where(op)
        made = Site(
            len(self.sites),
            op.name,
            Place.of(op),
            row,
            is_async,
            op,
            self,
            own_cycles(op),
            kind_of_op(op),
            order_of(op),
            any(len(list(result.uses)) for result in op.results),
            not is_async and _stores_shuffled(op, row),
            not is_async and _is_alone(op, row),
            needed and (self.key(needed[0]), needed[1]),
            row.alignment(op),
        )
        self.sites.append(made)
        return made

    def region(self, region: Any) -> DecodedRegion:
        blocks = _by_reconvergence(list(region.blocks))
        for number, block in enumerate(blocks):
            self._blocks[block] = number
        first = len(self.sites)
        decoded = [self._block(block) for block in blocks]
        inside = self.sites[first:]
        return DecodedRegion(
            decoded,
            self._loops(blocks),
            any(site.is_strong or site.row.phase in ("poll", "test") for site in inside),
            all(site.is_alone for site in inside),
        )

    def _loops(self, blocks: list[Any]) -> dict[int, DecodedLoop]:
        if len(blocks) == 1:
            return {}
        after = [
            [self._blocks[target] for target in terminator(block).successors] for block in blocks
        ]
        found = {}
        for head, inside in natural_loops(0, after.__getitem__).items():
            exits = [number for number in inside if not inside.issuperset(after[number])]
            ends = [terminator(blocks[number]) for number in exits]
            found[head] = DecodedLoop(head, frozenset(inside), self.compared(ends))
        return found

    def compared(self, ends: Iterable[Any]) -> Pairs:
        """The pairs of integers whose comparisons, and whatever else is true or false, the conditions of branches are made of."""
        found: dict[tuple[int, ...], None] = {}
        pending = [one for end in ends for one in end.operands[:1]]
        while pending:
            made = defining_op(pending.pop())
            if made is None:
                continue
            truths = [one for one in made.operands if str(one.type) == "i1"]
            if len(made.operands) == 2 and not truths:
                found[tuple(map(self.key, made.operands))] = None
            pending += truths
        return tuple(found)

    def block_number(self, block: Any) -> int:
        return self._blocks[block]

    def forget_handles(self) -> None:
        """Drop every handle of the module; it may change from here on."""
        for site in self.sites:
            site.op = None
        self._keys.clear()
        self._blocks.clear()
        self._symbols.clear()
        self._functions.clear()
        self.module = None

    def _block(self, block: Any) -> DecodedBlock:
        arguments = tuple(self.key(value) for value in block.arguments)
        decoded = DecodedBlock(arguments)
        for op in operations(block):
            if op.name in EXIT_OPS:
                decoded.leave = tuple(self.key(value) for value in op.operands)
                if any(map(is_loaded, op.operands)):
                    reads = _watched(self.site(op), lambda unit, *values: None)
                    decoded.instructions.append(
                        DecodedInstruction(self.site(op), decoded.leave, (), reads)
                    )
            elif op.name in BRANCH_ROWS:
                decoded.jump = self._instruction(op)
            else:
                decoded.instructions.append(self._instruction(op))
        return decoded

    def _instruction(self, op: Any) -> DecodedInstruction:
        site = self.site(op)
        instruction = instruction_of(op)
        named = op.name if instruction is None else instruction.row
        builder = SEMANTICS.get(CALL if intrinsic_name(op) else named)
        if builder is None:
            raise site.unsupported("it is not in the table")
        execute = builder(site)
        if any(map(is_loaded, op.operands)):
            execute = _watched(site, execute)
        if self.around is not None:
            execute = self.around(site, execute)
        return DecodedInstruction(
            site,
            tuple(self.key(value) for value in op.operands),
            tuple(self.key(value) for value in op.results),
            execute,
        )


def size_in_memory(kind: Any, at: Any) -> int:
    """Bytes from one value of an LLVM type to the next in memory; raises MachineError (unsupported-type)."""
    try:
        return layout_of(kind).stride_bytes
    except UnknownLayoutError as error:
        raise MachineError(
            f"the machine knows no layout of '{kind}': {error}", code="unsupported-type", at=at
        ) from error


def bytes_by_value(function: Any) -> tuple[int, ...]:
    """Of each argument of a function the bytes that it is passed by value, 0 for others; () where
    there are none."""
    if "arg_attrs" not in function.attributes:
        return ()
    sizes = []
    for given in map(ir.DictAttr, ir.ArrayAttr(function.attributes["arg_attrs"])):
        kind = ir.TypeAttr(given[BY_VALUE]).value if BY_VALUE in given else None
        sizes.append(0 if kind is None else size_in_memory(kind, function))
    return tuple(sizes) if any(sizes) else ()


# A reduction ends in a sum, its operand that came from another lane, and casts between registers.
NEAREST = 8


# Whose ops are of one thread.
_DIALECTS = frozenset("affine arith index math memref scf vector".split())


def _is_alone(op: Any, row: Row) -> bool:
    if op.name.split(".")[0] not in _DIALECTS or row.harmless:
        return False
    if not row.accesses:
        return row.does in ("value", "nothing")
    waits = row.synchronises or row.queue is not None or bool(row.effects)
    return not waits and not order_of(op).strong


def _stores_shuffled(op: Any, row: Row) -> bool:
    """Whether what an op stores may come from another lane, by the ops right before it, in a loop that hands it on too."""
    if not any(access.kind == "write" for access in row.accesses):
        return False
    group = operand_groups(op, row).get("value", range(0))
    pending = [op.operands[number] for number in group]
    for _ in range(NEAREST):
        if not pending:
            break
        value = pending.pop(0)
        made = defining_op(value)
        if made is None or len(made.regions):
            pending += origins(value).values
        elif made.name in SHUFFLES or made_together_by(made):
            return True
        else:
            pending += list(made.operands)
    return False


# Executes them -----------------------------------------------------------------------------------
#
# Executes decoded instructions for all threads of a unit in lock step.
#
# Lanes that take different paths run one after the other under a mask, and meet again
# after the structured op, or, for branches between blocks, at the first block in textual
# order that some lane still has to run.


@dataclass(eq=False)
class Activation:
    """One activation of a function: its values, and its marks of function-scope queues."""

    values: dict[int, Any] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)


class Polling:
    """A loop that reads flags lets others run after each iteration. One that carries the values of
    the one before it, with memory unchanged since, repeats it until another thread writes."""

    def __init__(self, unit: Unit, site: Any) -> None:
        self.unit, self.site = unit, site
        self._last: tuple[Any, ...] = ()

    def next_iteration(self, *carried: Any) -> None:
        """The next iteration begins, with the values `carried`. Raises StuckError."""
        launch = self.unit.launch
        now = (launch.memory.changes, *carried)
        is_idle = len(now) == len(self._last) and all(map(_same, now, self._last))
        self._last = now
        launch.scheduler.next_iteration(self.unit, self.site, is_idle)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_array(one) and is_array(other):
        return bool(np.array_equal(one, other))
    return one is other or (isinstance(one, int) and one == other)


@dataclass(eq=False)
class Unit:
    """Threads that run in lock step.

    `threads` are their linear ids in the block, which has the number `rank` in its cluster, `mask` the lanes that are active now (None:
    all). `launch` holds what all units of the grid share, `depth` counts the calls that run. `deferred` is the running
    async_pipe.scope, None outside. `registers` are those of sums, None if no product needs a fence. `kept`
    is the mask of the vector.mask around, if there is one.
    """

    launch: Any
    threads: Array
    queues: Queues
    mask: Array | None = None
    frame: Activation = field(default_factory=Activation)
    deferred: Any = None
    rank: int = 0
    registers: Any = None
    kept: Array | None = None
    rounds: dict[int, int] = field(default_factory=dict)
    depth: int = 0

    @property
    def width(self) -> int:
        return len(self.threads)

    @property
    def warp(self) -> int:
        """Lanes of a warp."""
        return int(self.launch.options.warp)

    def active(self) -> Array:
        return np.ones(self.width, np.bool_) if self.mask is None else self.mask

    def grid_threads(self, lanes: Any) -> Array:
        """The linear ids in the grid of the threads in some lanes."""
        return np.asarray(self.launch.grid_threads(self.threads[lanes]))

    def mask_of(self, lanes: Any) -> Array:
        mask = np.zeros(self.width, np.bool_)
        mask[lanes] = True
        return mask

    def first_lanes(self) -> Array:
        """The first active lane of each warp that has one."""
        lanes = np.flatnonzero(self.active())
        _, first = np.unique(self.threads[lanes] // self.warp, return_index=True)
        return np.asarray(lanes[first])

    def report(
        self,
        code: str,
        site: Site,
        lane: int | np.integer[Any] = 0,
        other: int | None = None,
        **details: Any,
    ) -> None:
        """Log a finding of the thread in a lane; `other` is the site at its other end."""
        thread = int(self.grid_threads([lane])[0])
        self.launch.detector.report(code, site.number, other, thread=thread, **details)

    def note(self, event: Event, site: Site, **more: Any) -> None:
        """Add an event to the trace, if this unit is traced."""
        trace = self.launch.trace_of(self)
        if trace is not None:
            trace.add(TraceEntry(event, site.name, site.place, **more))

    def tick(self) -> None:
        """Where data of async ops arrive at random moments, now may be one."""
        if self.launch.random_completion:
            self.queues.tick()

    def marks(self, queue: Queue) -> Marks:
        """The marks that a wait on `queue` counts here."""
        if queue.scope == "thread":
            return self.queues.fifo(queue).thread_marks
        if queue.name not in self.frame.marks:
            self.frame.marks[queue.name] = Marks(self.width)
        return self.frame.marks[queue.name]

    def call(self, function: Function, arguments: tuple[Any, ...]) -> list[Any]:
        """Run a function in a frame of its own, with copies of what it is passed by value."""
        if self.depth >= self.launch.depth_limit:
            raise MachineError(
                f"calls are nested more than {self.launch.depth_limit} deep",
                code="recursion-limit",
                at=function.site.place,
            )
        if function.by_value:
            arguments = self.launch.copies_by_value(self, function, arguments)
        outer, self.frame = self.frame, Activation()
        self.depth += 1
        try:
            return self.run_region(function.body, arguments)
        finally:
            self.frame = outer
            self.depth -= 1

    def run_region(self, region: DecodedRegion, arguments: tuple[Any, ...] = ()) -> list[Any]:
        """Run a region; returns what its terminator hands out."""
        if len(region.blocks) == 1:
            block = region.blocks[0]
            values = self.frame.values
            for key, value in zip(block.arguments, arguments, strict=True):
                values[key] = value
            self._run(block)
            return [values[key] for key in block.leave]
        return self._run_blocks(region, arguments)

    def under(self, mask: Any, region: DecodedRegion, arguments: tuple[Any, ...] = ()) -> list[Any]:
        """Run a region with other lanes active."""
        outer, self.mask = self.mask, mask
        try:
            return self.run_region(region, arguments)
        finally:
            self.mask = outer

    def _run(self, block: DecodedBlock) -> None:
        # The terminator is one too, or an empty loop would never come to its limit.
        self.launch.take_steps(len(block.instructions) + 1)
        values = self.frame.values
        trace = self.launch.trace_of(self)
        for instruction in block.instructions:
            result = instruction.execute(self, *[values[key] for key in instruction.operands])
            keys = instruction.results
            if len(keys) == 1:
                values[keys[0]] = result
            elif keys:
                for key, value in zip(keys, result, strict=True):
                    values[key] = value
            if trace is not None:
                trace.executed(instruction.site)

    def _run_blocks(
        self, region: DecodedRegion, arguments: tuple[Any, ...], within: DecodedLoop | None = None
    ) -> Any:
        """Run the blocks from the first one on. `within` a loop it is one iteration from its head on, and gives what the
        head is passed next, None where not all lanes come to it again."""
        entry_mask = self.mask
        first = 0 if within is None else within.head
        waiting: dict[int, tuple[Any, tuple[Any, ...]]] = {first: (entry_mask, arguments)}
        left: list[Any] | None = None
        polling: Polling | None = None
        entered: set[int] = set()
        is_first = True
        try:
            while waiting:
                number = min(waiting)
                self.mask, passed = waiting.pop(number)
                if within is not None and not is_first:
                    if number == first:
                        return None if waiting or self.mask is not entry_mask else passed
                    if number not in within.blocks:
                        return None
                is_first = False
                loop = region.loops.get(number)
                if loop is not None and loop is not within:
                    if number in entered:
                        iterate = partial(self._run_blocks, region, within=loop)
                        passed = self.followed(loop.compared, passed, iterate)
                    entered.add(number)
                block = region.blocks[number]
                # Lanes that are ahead and wait elsewhere keep the values that they have.
                diverged = self.mask is not entry_mask
                values = self.frame.values
                for key, value in zip(block.arguments, passed, strict=True):
                    values[key] = merge(self.mask, value, values.get(key)) if diverged else value
                if diverged:
                    self._run_keeping(block)
                else:
                    self._run(block)
                if block.jump is None:
                    left = merge(self.mask, [values[key] for key in block.leave], left)
                    continue
                given = [values[key] for key in block.jump.operands]
                for target, mask, out in block.jump.execute(self, *given):
                    if mask is NONE:
                        continue
                    if region.polls and target <= number:
                        polling = polling or Polling(self, block.jump.site)
                        polling.next_iteration((target, mask, *out))
                    waiting[target] = self._join(waiting.get(target), mask, tuple(out), entry_mask)
        finally:
            self.mask = entry_mask
        return left or []

    def followed(
        self, compared: Pairs, passed: tuple[Any, ...], iterate: Callable[[Any], Any]
    ) -> tuple[Any, ...]:
        """What a loop carries, in its last iterations if its end depends on a trip count that is not known. An iteration was run, in which
        the integers of `compared` were; `iterate` runs another one, and gives what it carries then, None where some lanes leave."""
        induction, values = self.launch.memory.induction, self.frame.values
        for one, other in compared if induction is not None else ():
            if induction.depends(values.get(one), values.get(other)):

                def apart(_: Any, one: int = one, other: int = other) -> Any:
                    return values[other] - values[one]

                return tuple(induction.follow(self, passed, iterate, apart))
        return passed

    def _run_keeping(self, block: DecodedBlock) -> None:
        values = self.frame.values
        keys = [key for instruction in block.instructions for key in instruction.results]
        before = {key: values[key] for key in keys if key in values}
        self._run(block)
        for key, old in before.items():
            values[key] = merge(self.mask, values[key], old)

    @staticmethod
    def _join(
        known: tuple[Any, tuple[Any, ...]] | None, mask: Any, passed: tuple[Any, ...], everyone: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        if known is None:
            return mask, passed
        both = known[0] | mask
        merged = merge(mask, passed, known[1])
        whole = both.all() if everyone is None else (both == everyone).all()
        return (everyone if whole else both), merged
