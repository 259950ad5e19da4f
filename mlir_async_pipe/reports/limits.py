"""What counts of stages and groups do not show: what memory is asked for, and what bounds a kernel.

    gemm.mlir:40:12: remark: 'nvgpu.ldmatrix' takes 16 wavefronts of workgroup memory where 4 would do: 4 rows
                             meet in one bank [bank-conflicts]
    gemm.mlir:20:3: remark: a multiprocessor of sm_80 holds 1 block of 'gemm': workgroup memory has room for 1 …
    gemm.mlir:35:5: remark: tensor binds: 512 cycles an iteration [limits]
    gemm.mlir:35:5: note: load/store: 384 cycles

All of it is told of the module as passes leave it, and of the code that was made of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Block,
    Operation,
    Value,
    defining_op,
    enclosing,
    function_name,
    is_kernel,
    operations,
    parent,
    unchanged,
    walk,
    walk_named,
)
from mlir_async_pipe.chips.occupancy import BlockLimit, block_limits
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.costs.cost_model import (
    CACHED,
    ISSUE,
    TENSOR,
    TENSOR_COPY,
    UNCACHED,
    CostModel,
    bytes_of_access,
)
from mlir_async_pipe.facts.costs.warp_traffic import NotKnownError, Traffic, Unknown, WarpTraffic
from mlir_async_pipe.facts.costs.wave_reads import Reads, Wave, WaveReads
from mlir_async_pipe.facts.flow.algorithms import walked
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.loops.annotations import STAGE, static_trip_count
from mlir_async_pipe.facts.loops.transactions import bytes_of
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.thread_numbers import steps_of_access
from mlir_async_pipe.facts.values.uniformity import sources
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.session.diagnostics import Diagnostic, Note, Place, count
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access, accesses, given_count, is_wait_name, row_of
from mlir_async_pipe.vocabulary.launch_ids import (
    Size,
    cluster_size,
    enclosing_launch_size,
    grid_size,
    id_of,
    launch_id,
)
from mlir_async_pipe.vocabulary.products import PRODUCTS, products_left
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.waits.witness_paths import FEW

_Where = tuple[Place, str, str, int]
# So many registers less of a thread are few.
FEW_REGISTERS = 16
# Places that are named of accesses that ask for the same.
_SHOWN = 4


@unchanged()
def remarks(root: Any, session: Session, costs: CostModel) -> list[Diagnostic]:
    """The remarks of all kernels; none without a target, whose chip they are about."""
    if session.target is None:
        return []
    chip = session.target.chip
    said: list[Diagnostic] = []
    loops = pipelined_loops(root, session)
    kernels = filter(is_kernel, walk_named(root, KERNEL_OPS.__contains__))
    for kernel in kernels:
        found = _Kernel(kernel, chip, costs, session)
        said += found.of_accesses()
        own = [loop for loop in loops if enclosing(loop, KERNEL_OPS) == kernel]
        said += [found.of_blocks(own)] if own and found.block is not None else []
        copies = Counter(map(Place.of, own))
        for loop in own:
            wave = found.of_wave(loop)
            said += [] if wave is None else [wave]
            said.append(found.of_loop(loop, together=copies[Place.of(loop)] == 1))
    return said


class _Kernel:
    """One kernel: what each of its accesses asks for is counted once."""

    def __init__(self, op: Operation, chip: Chip, costs: CostModel, session: Session) -> None:
        self.op, self.chip, self.costs, self.session = op, chip, costs, session
        inner = next(iter(op.regions[0].blocks[0].operations), op)
        self.block: Size | None = enclosing_launch_size(inner)
        self.traffic = WarpTraffic(self.block, chip)
        self.grid = grid_size(op)
        # Of each loop what a wave of so many blocks reads in an iteration.
        self.waves: dict[Operation, tuple[int, list[Reads]]] = {}
        self.asked: dict[Access, Traffic | Unknown | None] = {}
        for each in walk(op):
            self.asked |= {access: self.traffic.of(access) for access in accesses(each)}

    # Accesses --------------------------------------------------------------------------------

    def of_accesses(self) -> Iterator[Diagnostic]:
        """A remark for each op of the source that asks for more than its bytes need, and one of them all. What a
        pipeline wrote several times is told once, with the worst."""
        worst: dict[_Where, Traffic | Unknown] = {}
        for access, asked in self.asked.items():
            if asked is not None:
                place = Place.of(access.op)
                # Ops without places are told apart.
                number = 0 if place.line else len(worst)
                key = place, access.op.name, asked.space, number
                worst[key] = max(worst.get(key, asked), asked, key=_badness)
        if not worst:
            return
        alike: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for (place, op, *_), asked in worst.items():
            if isinstance(asked, Traffic) and asked.wasted:
                alike[_of_access(op, asked, self.chip)].append(place)
        for (text, code), (first, *others) in alike.items():
            yield Diagnostic("remark", text, code, first, tuple(_also(others)))
        yield self._summary(worst)

    def _summary(self, worst: dict[_Where, Traffic | Unknown]) -> Diagnostic:
        kinds: Counter[tuple[str, str]] = Counter()
        alike: dict[str, list[Place]] = defaultdict(list)
        for (place, op, space, _), asked in worst.items():
            kind = "unknown" if isinstance(asked, Unknown) else "bad" if asked.wasted else "good"
            kinds[space, kind] += 1
            if isinstance(asked, Unknown):
                alike[f"what '{op}' asks for is not known: {asked.why}"].append(place)
        notes = []
        for text, (first, *others) in alike.items():
            notes += [Note(text, first), *_also(others)]
        parts = []
        for space, wrong in (("workgroup", "bank conflicts"), ("global", "partial sectors")):
            number = sum(kinds[space, kind] for kind in ("good", "bad", "unknown"))
            if number:
                unknown = kinds[space, "unknown"]
                these = "1 access" if number == 1 else f"{number} accesses"
                text = f"{these} to {space} memory, {kinds[space, 'bad']} with {wrong}"
                parts.append(text + (f", {unknown} not known" if unknown else ""))
        text = "; ".join(parts)
        return Diagnostic("remark", text, "memory-accesses", Place.of(self.op), tuple(notes))

    # Blocks ----------------------------------------------------------------------------------

    def of_blocks(self, loops: list[Operation]) -> Diagnostic:
        """How many blocks a multiprocessor holds, by which limit, and what would make it one more."""
        name, place, chip = function_name(self.op), Place.of(self.op), self.chip
        unit = "multiprocessor" if chip.lowering == "nvvm" else "compute unit"
        code = "resident-blocks"
        if not chip.resident_threads:
            text = f"how many blocks a {unit} of {chip.name} holds is not known here"
            return Diagnostic("remark", text, code, place)
        registers, memory = self._needs(loops[0])
        assert self.block is not None
        threads, blocks = prod(self.block), self._blocks
        limits = blocks(registers, memory)
        held = min(limits.values())
        binding = " and ".join(limit for limit, number in limits.items() if number == held)
        of = {
            "workgroup memory": f" ({memory} bytes)",
            "registers": f" ({registers} a thread)",
            "threads": f" ({threads})",
        }
        rest = ", ".join(f"{limit}{of.get(limit, '')} {number}" for limit, number in limits.items())
        text = f"a {unit} of {chip.name} holds {count(held, 'block')} of '{name}', bound by {binding}: {rest}"
        notes = []
        if registers is None:
            notes.append("registers are known where code is made: --emit=cubin")
        slots = self._slot_bytes()
        if slots and (more := min(blocks(registers, memory - slots).values())) > held:
            notes.append(
                f"with one slot less of each buffer, {memory - slots} bytes, it holds {more}"
            )
        most = (registers or 1) - 1
        for fewer in range(most, max(most - FEW_REGISTERS, 0), -1):
            if (more := min(blocks(fewer, memory).values())) > held:
                notes.append(f"with {fewer} registers a thread it holds {more}")
                break
        return Diagnostic("remark", text, code, place, tuple(Note(n, place) for n in notes))

    def _blocks(self, registers: int | None, memory: int) -> dict[BlockLimit, int]:
        assert self.block is not None
        found = block_limits(self.chip, prod(self.block), registers or 0, memory)
        return {limit: n for limit, n in found.items() if limit != "registers" or registers}

    # Waves -----------------------------------------------------------------------------------

    def of_wave(self, loop: Operation) -> Diagnostic | None:
        """The bytes that the blocks which run at once read in an iteration, and how many are different; None of a loop that
        reads nothing from global memory but by tensor copies."""
        chip, place = self.chip, Place.of(loop)
        code = "shared-reads"
        executed = [op for op, _ in _executed(loop)]
        boxes = any(row_of(op).phase == "copy" for op in executed)
        reads = [
            access
            for op in executed
            for access in accesses(op)
            if access.kind == "read" and root_of(access.memory).space == "global"
        ]
        if not reads:
            return None

        def unknown(why: str, *notes: Note) -> Diagnostic:
            text = f"what blocks that run at once read together is not known: {why}"
            return Diagnostic("remark", text, code, place, notes)

        if self.block is None:
            return unknown("the size of the block is not known")
        if boxes:
            return unknown("boxes of tensor copies are not counted")
        if not chip.multiprocessors:
            return unknown(
                f"how many multiprocessors of {chip.name} share a cache is not known here"
            )
        if cluster_size(self.op) not in (None, (1, 1, 1)):
            return unknown("blocks of clusters do not start in the order of their numbers")
        registers, memory = self._needs(loop)
        held = min(self._blocks(registers, memory).values())
        if self.grid is None:
            why = (
                "the size of the grid is not known (`known_grid_size`, or a launch with constants)"
            )
            return unknown(why, *(Note(text, place) for text in self._coordinates(reads)))
        counter = WaveReads(self.block, chip, self.grid, loop)
        blocks = min(chip.multiprocessors * held, prod(self.grid))
        try:
            found = counter.of_wave(reads, Wave.first(self.grid, blocks))
            asked, different = _totals(found)
            groups = [
                (_totals(counter.of_wave(reads, Wave.grouped(self.grid, blocks, group)))[1], group)
                for group in self._groups()
            ]
        except NotKnownError as why:
            return unknown(str(why))
        self.waves[loop] = blocks, found
        more = "" if registers is not None else ", registers not known"
        text = (
            f"a wave of {count(blocks, 'block')} ({held} a multiprocessor{more}) reads {_bytes(asked)} an iteration, "
            f"{_bytes(different)} of them different: L2 serves {100 * (asked - different) // asked} %"
        )
        notes = [
            f"{_bytes(one.asked)} of {one.memory}, {_bytes(one.different)} different"
            for one in found
        ]
        least, group = min(groups, default=(different, 0))
        if least < different:
            notes.append(f"in groups of {group} blocks along y {_bytes(least)} would be different")
        return Diagnostic("remark", text, code, place, tuple(Note(n, place) for n in notes))

    def _groups(self) -> Iterator[int]:
        """Numbers of blocks along y that may come one after the other, if the grid has several along x and y."""
        assert self.grid is not None
        x, y, _ = self.grid
        group = 2
        while x > 1 and group <= y:
            yield group
            group *= 2

    def _coordinates(self, reads: list[Access]) -> Iterator[str]:
        """Of each memory the ids of blocks that its addresses are made of, where these alone tell blocks apart."""
        axes: dict[str, set[int] | None] = {}
        for access in reads:
            used, before = (
                _block_axes(_made_of(access)),
                axes.setdefault(str(root_of(access.memory)), set()),
            )
            known = all(op is None or id_of(op) for op in _beginnings(_made_of(access)))
            axes[str(root_of(access.memory))] = (
                None if before is None or not known else before | used
            )
        for memory, found in axes.items():
            others = [] if found is None else sorted(self._axes_read() - found)
            if others:
                named = ", ".join("xyz"[axis] for axis in others)
                yield f"blocks along {named} read the same of {memory}"

    def _needs(self, loop: Operation) -> tuple[int | None, int]:
        """Registers of a thread, None where no code was made, and bytes of workgroup memory of a block."""
        for kernel in self._of_this("kernels", "name"):
            if self.chip.lowering == "rocdl":
                return kernel.vector_registers, kernel.workgroup_bytes or 0
            if (used := kernel.resources) is not None:
                return used.registers, used.static_shared_bytes + kernel.dynamic_shared_bytes
        return None, Surroundings(self.chip).workgroup_bytes_beside(loop, ())

    def _of_this(self, kind: str, by: str) -> list[Any]:
        """The records of a kind that name this kernel."""
        name = function_name(self.op)
        return [r for r in self.session.records.get(kind, []) if getattr(r, by) == name]

    def _slot_bytes(self) -> int:
        """One slot of each buffer of the kernel's loops that has several."""
        records = self._of_this("loops", "function")
        buffers = {b.buffer: b for r in records for b in r.buffers if b.versions > 1}
        return sum(buffer.slot_bytes for buffer in buffers.values())

    # Loops -----------------------------------------------------------------------------------

    def of_loop(self, loop: Operation, *, together: bool) -> Diagnostic:
        """The cycles of each unit for an iteration of a block, and which of them binds; of one warp a quarter of
        the multiprocessor, where not all threads run it `together`.

        Lanes that meet in a bank, and sectors that are asked for in part, take their unit for as much longer."""
        uses: dict[str, float] = defaultdict(float)
        missing: dict[str, None] = {}
        shared = 0.0
        quarter = self.chip.lanes * 4
        threads = prod(self.block) if self.block is not None and together else quarter
        warps = max(1, ceil(threads / quarter))
        products, unseen = 0, False
        wave = self.waves.get(loop)
        for op, times in _executed(loop):
            if row_of(op).phase == "copy":
                # One thread issues it; what it takes is to write its box to workgroup memory.
                cost, box = self.costs.unit_of(TENSOR_COPY, TENSOR_COPY), bytes_of(op)
                if box and cost.cycles:
                    uses[cost.unit] += times * box / 16 * cost.cycles
                else:
                    unseen = True
            products += times * multiplies(op)
            used = {} if _is_number(op) else self.costs.uses(op)
            if multiplies(op) and not used.get(TENSOR):
                missing[f"'{op.name}'"] = None
            # One thread issues a product of tensor memory for all warps.
            by = 1 if row_of(op).tensor == "product" else warps
            for unit, cycles in used.items():
                stretched = max(map(self._waste, accesses(op)), default=1.0)
                uses[unit] += by * times * cycles * stretched
            for access in accesses(op):
                counted = wave is not None and access.kind == "read"
                if root_of(access.memory).space == "global" and not counted:
                    bytes_ = threads * times * bytes_of_access(access)
                    if self._others_ask(access):
                        shared += bytes_
                    else:
                        cost = self.costs.unit_of(UNCACHED, UNCACHED)
                        pieces = bytes_ / quarter / 16
                        uses[cost.unit] += pieces * cost.cycles * self._waste(access)
        if wave is not None:
            blocks, found = wave
            for name, bytes_ in zip((CACHED, UNCACHED), _totals(found), strict=True):
                cost = self.costs.unit_of(name, name)
                if cost.cycles:
                    uses[cost.unit] += bytes_ / blocks / quarter / 16 * cost.cycles
        issued = self._instructions(products)
        if issued is not None:
            uses[ISSUE] = warps * issued
        order = sorted(uses.items(), key=lambda item: -item[1])
        place = Place.of(loop)
        notes = [
            f"{unit}: {ceil(cycles)} cycles"
            + (f" ({issued} instructions of machine code)" if unit == ISSUE and issued else "")
            for unit, cycles in order
        ]
        if shared:
            notes.append(
                f"{ceil(shared)} bytes of global memory that other blocks ask for, too, are not in it"
            )
        if unseen:
            notes.append("copies to mbarriers of which no bytes or cycles are known are not in it")
        if missing:
            notes.append(f"the costs have no figures for {', '.join(missing)}")
        of = "an iteration of " + ("a block" if together else "one warp a quarter")
        text = f"what binds {of} is not known"
        if order and not missing:
            text = f"{order[0][0]} binds: {ceil(order[0][1])} cycles {of}"
        return Diagnostic("remark", text, "limits", place, tuple(Note(n, place) for n in notes))

    def _instructions(self, products: int) -> int | None:
        """Instructions of an iteration in the machine code; None where it is not plain which loop that is."""
        kernels = self._of_this("kernels", "name")
        machine = next((getattr(kernel, "machine", None) for kernel in kernels), None)
        loops = [] if machine is None else machine.pipelined_loops
        loops = [loop for loop in loops if products and loop.multiplications == products]
        # The loop for short trips waits for all of its copies.
        ahead = max((sum(loop.waits) for loop in loops), default=0)
        found = [loop.instructions for loop in loops if sum(loop.waits) == ahead]
        return found[0] if len(found) == 1 else None

    def _waste(self, access: Access) -> float:
        asked = self.asked.get(access)
        return asked.asked / asked.ideal if isinstance(asked, Traffic) else 1.0

    def _others_ask(self, access: Access) -> bool:
        """Whether blocks along some axis that the kernel asks for have one address."""
        return not self._axes_read() <= _block_axes(_made_of(access))

    def _axes_read(self) -> set[int]:
        ids = map(id_of, walk(self.op))
        return {found.axis for found in ids if found is not None and found.kind == "block"}


def _totals(found: list[Reads]) -> tuple[int, int]:
    """The bytes that a wave asks for, and those that are different."""
    return sum(one.asked for one in found), sum(one.different for one in found)


def _bytes(number: int) -> str:
    return f"{number} bytes" if number < 100_000 else f"{number / 1e6:.1f} MB"


def _badness(asked: Traffic | Unknown) -> float:
    return 1e9 if isinstance(asked, Unknown) else asked.asked / asked.ideal


def _also(others: list[Place]) -> Iterator[Note]:
    """Other places of which the same is true."""
    yield from (Note("the same here", place) for place in others[:_SHOWN])
    if len(others) > _SHOWN:
        yield Note(f"and {len(others) - _SHOWN} more", others[-1])


def _of_access(op: str, asked: Traffic, chip: Chip) -> tuple[str, str]:
    """What is told of an access that asks for more than its bytes need, and its code."""
    if asked.space == "workgroup":
        code = "bank-conflicts"
        taken = f"'{op}' takes {count(asked.asked, 'wavefront')} of workgroup memory"
        return f"{taken} where {asked.ideal} would do: {asked.ways} rows meet in one bank", code
    code = "partial-sectors"
    where = "" if asked.aligned else ", if what is not known of its addresses is whole sectors"
    taken = f"'{op}' asks for {count(asked.asked, 'sector')} of {chip.sector_bytes} bytes"
    return f"{taken} where {asked.ideal} would do{where}", code


def _is_number(op: Operation) -> bool:
    """Whether an op makes numbers alone, as of addresses, which the lowering takes out of the loop or shares."""
    kinds = [result.type for result in op.results]
    return (
        bool(kinds)
        and all(isinstance(k, (ir.IndexType, ir.IntegerType)) for k in kinds)
        and not accesses(op)
    )


def _executed(loop: Operation, times: int = 1) -> Iterator[tuple[Operation, int]]:
    """The ops of an iteration, and how often each runs in it; a loop of unknown length counts once."""

    blocks = (block for region in loop.regions for block in region.blocks)
    for op in (op for block in blocks for op in operations(block)):
        yield op, times
        trips = static_trip_count(op) if op.name == "scf.for" else None
        yield from _executed(op, times * (1 if trips is None else trips))


def _made_of(access: Access) -> list[Value]:
    """The memory of an access and the numbers that say where it begins."""
    steps = steps_of_access(access)
    return [
        steps.memory,
        *(step.amount for step in steps.steps if not isinstance(step.amount, int)),
    ]


def _beginnings(values: Iterable[Value]) -> Iterator[Operation | None]:
    """Where what values are made of begins: None is the same for all threads, but for ids of blocks."""
    return (sources(value)[1] for value in walked(values, lambda each: sources(each)[0]))


def _block_axes(values: Iterable[Value]) -> set[int]:
    """The axes of the ids of blocks that values are made of."""
    known = map(launch_id, walked(values, lambda value: sources(value)[0]))
    return {found.axis for found in known if found is not None and found.kind == "block"}


# Outlines ----------------------------------------------------------------------------------------
#
# What a pipelined loop looks like: its prologue, kernel and epilogue, found in the IR.
#
#     copy, commit                  prologue
#     copy, commit
#     scf.for {                     kernel: wait (1 group stays) -> commits of prologue and kernel
#       wait, barrier                 barrier
#       copy, commit                  copy, commit
#       load … store                  load, store
#     }
#     wait, barrier, load … store   epilogue: wait (1) …, wait (0) …
#
# What a pipeline is written of has the places of the loop that it was. So the kernel is the loop at
# the place of the record, and what stands around it in its block with places of ops in the kernel is
# prologue and epilogue. A loop without places has no outline. The loop as it was, which may stand
# beside the pipeline for short trips, is no kernel.


PARTS = ("prologue", "kernel", "epilogue")
RUNNING = ("copy", "product", "statement")
# What the thread does that copies.
COPYING = ("copy", "announcement")


@dataclass(frozen=True)
class Entry:
    """One op of a pipeline: a "copy" that is issued, a "product" of matrices, a "commit", "wait",
    "barrier" or a plain "statement"; of an mbarrier a "phase wait", an "arrival", or an "announcement"
    of bytes that are to come.

    A wait leaves `count` groups in flight, a product that waits by itself too. `commits` are the numbers of the entries whose group
    its token may denote, `record` that of the wait's record in the report; None where several
    records fit. `group` is the number of the group of mbarriers that it is about, in the records of
    roles, None where it is about none or several."""

    number: int
    part: str
    kind: str
    op: str
    place: Place
    count: int | None = None
    commits: tuple[int, ...] = ()
    record: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class Outline:
    """One pipelined loop: its entries in the order in which they stand.

    Where warps have roles, the loop became several, each with an outline: `role` is "copies",
    "products" or "computation", `threads` are those of the block that run it, "0-127". Both are ""
    where all threads run it."""

    place: Place
    entries: tuple[Entry, ...]
    role: str = ""
    threads: str = ""

    @property
    def title(self) -> str:
        """The role and its threads, "" if there is one only."""
        return f"{self.role} ({self.threads})" if self.threads else self.role

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts to be shown: a role that runs ahead by itself has no prologue."""
        return tuple(part for part in PARTS if not self.role or self.of(part))

    def of(self, part: str) -> tuple[Entry, ...]:
        """The entries of the prologue, the kernel or the epilogue."""
        return tuple(entry for entry in self.entries if entry.part == part)

    def contents(self, part: str) -> str:
        """What a part holds: 2 copies, 1 commit, 2 waits (1, 0)."""
        shown = []
        entries = self.of(part)
        for kind, number in Counter(entry.kind for entry in entries).items():
            counts = [str(entry.count) for entry in entries if entry.kind == kind == "wait"]
            shown.append(count(number, kind) + (f" ({', '.join(counts)})" if counts else ""))
        return ", ".join(shown) or "nothing"

    def stages(self, stages: int) -> dict[Place, int]:
        """The stage of the statements at each place: one of stage s stands S - 1 - s times in
        the prologue for each time that it stands in the kernel.

        Where phases say when copies are over, nothing is peeled: copies are stage 0, all else is the
        last one."""
        kernel = self.of("kernel")
        if any(entry.kind in ("phase wait", "announcement") for entry in kernel):
            return {
                entry.place: 0 if entry.kind in COPYING else stages - 1
                for entry in kernel
                if entry.kind in (*RUNNING, "announcement")
            }
        counted = {
            part: Counter(e.place for e in self.of(part) if e.kind in RUNNING) for part in PARTS
        }
        found = {}
        for place, once in counted["kernel"].items():
            before, rest = divmod(counted["prologue"][place], once)
            if not rest and before < stages:
                found[place] = stages - 1 - before
        return found


@unchanged()
def record_outlines(root: Any, session: Session) -> None:
    """Record an outline of each pipelined loop of the session that stands in the IR, and in the
    records of its waits where they stand."""
    loops = _loops(root, session)
    if not loops:
        return
    records = _records(root, session)
    beside: dict[Block, _Block] = {}
    for loop in loops:
        if _is_original(loop):
            for wait in walk_named(loop, is_wait_name):
                if wait in records:
                    _note_part(session, records[wait], FEW)
            continue
        if loop.block not in beside:
            beside[loop.block] = _Block(loop.block)
        ops = _ops(loop, beside[loop.block])
        numbers = {shown.op: number for number, (_, shown) in enumerate(ops)}
        entries = tuple(
            _entry(number, part, shown, numbers, records)
            for number, (part, shown) in enumerate(ops)
        )
        session.record("outlines", Outline(Place.of(loop), entries))
        for entry in entries:
            if entry.record is not None:
                _note_part(session, entry.record, entry.part)


def pipelined_loops(root: Any, session: Session) -> list[Operation]:
    """The kernels of the session's pipelined loops that stand in the IR."""
    return [loop for loop in _loops(root, session) if not _is_original(loop)]


def _loops(root: Any, session: Session) -> list[Operation]:
    """These, and the loops as they were."""
    places = {record.place for record in session.records.get("loops", []) if record.place.line}
    return [op for op in walk_named(root, "scf.for".__eq__) if Place.of(op) in places]


def name_roles(session: Session) -> None:
    """Say in the outlines which role runs each of them, and in which threads: after the check."""
    if "outlines" in session.records:
        session.records["outlines"] = list(_with_roles(session))


def _note_part(session: Session, record: int, part: str) -> None:
    waits = session.records["waits"]
    waits[record] = replace(waits[record], part=part)


def _with_roles(session: Session) -> Iterator[Outline]:
    """The outlines; of those of one place each with its role, and with the threads that the checker
    met at those of its ops on mbarriers that no other one has."""
    groups: dict[tuple[str, Place], set[int]] = {}
    for use in session.records.get("roles", []):
        groups.setdefault((use.op, use.place), set()).add(use.group)
    outlines = [_with_groups(outline, groups) for outline in session.records["outlines"]]
    for outline in outlines:
        others = [e for e in outlines if e.place == outline.place and e is not outline]
        if not others:
            yield outline
            continue
        kinds = {entry.kind for entry in outline.of("kernel")}
        role = "products" if "product" in kinds else "copies" if "copy" in kinds else "computation"
        taken = {(entry.op, entry.place) for other in others for entry in other.entries}
        own = {(entry.op, entry.place) for entry in outline.entries} - taken
        uses = [use for use in session.records.get("roles", []) if (use.op, use.place) in own]
        # Those who wait are more than those who arrive for them; ping-pong groups run the same ops.
        waiting = [use.threads for use in uses if use.does == "waits"]
        threads = " and ".join(dict.fromkeys(waiting))
        yield replace(outline, role=role, threads=threads and f"threads {threads}")


def _with_groups(outline: Outline, groups: dict[tuple[str, Place], set[int]]) -> Outline:
    def named(entry: Entry) -> Entry:
        found = groups.get((entry.op, entry.place), set())
        return replace(entry, group=next(iter(found))) if len(found) == 1 else entry

    return replace(outline, entries=tuple(map(named, outline.entries)))


def _is_original(loop: Operation) -> bool:
    """Whether this is the loop as it was, beside a pipeline that needs more iterations."""
    around = parent(loop)
    return (
        around is not None
        and around.name == "scf.if"
        and Place.of(around) == Place.of(loop)
        and any(loop in operations(block) for block in around.regions[1])
    )


class Shown(NamedTuple):
    """An op of a block that matters, its number there, and the op of the block that it is or stands in."""

    number: int
    top: Operation
    kind: str
    op: Operation
    place: Place


class _Block:
    """The ops of a block that matter, and those in them, by their places, and the places in each of its ops: each loop
    of many asks for its own ones."""

    def __init__(self, block: Block) -> None:
        self.by_place: dict[Place, list[Shown]] = defaultdict(list)
        self.places: dict[Operation, set[Place]] = defaultdict(set)
        inside = ((top, op) for top in operations(block) for op in walk(top))
        for number, (top, op) in enumerate(inside):
            kind = _kind(op)
            if kind:
                place = Place.of(op)
                self.by_place[place].append(Shown(number, top, kind, op, place))
                self.places[top].add(place)


def _ops(loop: Operation, beside: _Block) -> list[tuple[str, Shown]]:
    """Everything that a pipeline consists of, each with its part."""
    # What is written for the whole loop, such as the last wait for products, has the loop's own place.
    places = {Place.of(loop), *beside.places.get(loop, ())}
    near = sorted(shown for place in places for shown in beside.by_place.get(place, ()))
    parts: list[tuple[str, Shown]] = []
    part = "prologue"
    # A loop of the computation stands in the prologue and the epilogue, too.
    loops = {Place.of(op) for op in walk_named(loop, "scf.for".__eq__)}
    for shown in near:
        if shown.top == loop:
            parts.append(("kernel", shown))
            part = "epilogue"
        elif shown.top.name != "scf.for" or Place.of(shown.top) in loops:
            parts.append((part, shown))
    return parts


def _kind(op: Operation) -> str:
    row = row_of(op)
    if multiplies(op):
        return "product"
    if row.phase in _OF_PHASES:
        return _OF_PHASES[row.phase]
    if not row.known:
        if row.pure and STAGE not in op.attributes:
            return ""
        ends = op.name.endswith((".yield", ".return", ".condition"))
        return "" if len(op.regions) or ends else "statement"
    if row.wait is not None:
        return "wait"
    if row.barrier is not None:
        return "barrier"
    if row.commits == "group":
        return "commit"
    return "copy" if row.asynchronous(op) else "statement"


def multiplies(op: Operation) -> bool:
    row = row_of(op)
    in_flight = row.queue is WGMMA and row.asynchronous(op)
    return op.name in PRODUCTS or row.tensor == "product" or in_flight


_OF_PHASES = {
    "arrive": "arrival",
    "commit": "arrival",
    "expect": "announcement",
    "wait": "phase wait",
    "test": "phase wait",
    "copy": "copy",
}


def _records(root: Any, session: Session) -> dict[Operation, int]:
    """The number of the record of each wait, where it is plain which: as many waits stand at its
    place with its count as records do. Both are in the order of the text."""
    recorded: dict[tuple[Place, int], list[int]] = {}
    for number, record in enumerate(session.records.get("waits", [])):
        recorded.setdefault((record.place, record.count), []).append(number)
    standing: dict[tuple[Place, int], list[Operation]] = {}
    for op in walk_named(root, is_wait_name):
        if _kind(op) == "wait":
            standing.setdefault((Place.of(op), _count(op) or 0), []).append(op)
    found: dict[Operation, int] = {}
    for key, ops in standing.items():
        numbers = recorded.get(key, [])
        if len(numbers) == len(ops):
            found.update(zip(ops, numbers, strict=True))
    return found


def _entry(
    number: int,
    part: str,
    shown: Shown,
    numbers: dict[Operation, int],
    records: dict[Operation, int],
) -> Entry:
    _, _, kind, op, place = shown
    if kind != "wait":
        return Entry(number, part, kind, op.name, place, products_left(op))
    commits = sorted({numbers[made] for made in _makers(list(op.operands)) if made in numbers})
    return Entry(number, part, kind, op.name, place, _count(op), tuple(commits), records.get(op))


def _count(op: Operation) -> int | None:
    row = row_of(op)
    assert row.wait is not None
    given = given_count(op)
    return 0 if given is None and row.wait.form == "token" else given


def _makers(values: Sequence[Value]) -> Iterator[Operation]:
    """The ops that make what `values` may be, through loops, branches and selects."""
    for value in walked(values, lambda value: origins(value).values):
        op = defining_op(value)
        if op is not None and not origins(value).values:
            yield op
