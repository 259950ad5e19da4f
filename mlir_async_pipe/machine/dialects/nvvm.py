"""nvvm: cp.async on pointers, bulk copies, warp ops of lowered kernels; and PTX instructions without an op."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access, fragments
from mlir_async_pipe.machine.barrier_phases import Mbarrier
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects import gpu
from mlir_async_pipe.machine.dialects.arith import COMBINE, reduction
from mlir_async_pipe.machine.dialects.async_ops import (
    Combine,
    byte_span,
    copier,
    copy_of_lane,
    refuse_in_scope,
)
from mlir_async_pipe.machine.dialects.gpu import (
    each_target,
    fragment_product,
    mask_of,
    matrix_parts,
    matrix_rows,
)
from mlir_async_pipe.machine.dialects.llvm import pointer_span
from mlir_async_pipe.machine.dialects.mbarriers import MbarrierOperands, warps_of
from mlir_async_pipe.machine.dialects.memref import atomic_update, combining
from mlir_async_pipe.machine.dialects.tma import complete_on
from mlir_async_pipe.machine.fragments import ProductArithmetic
from mlir_async_pipe.machine.kinds import BYTE, FACTOR_KINDS, Kind, kind_of
from mlir_async_pipe.machine.lane_values import Array, lanes_of, uniform
from mlir_async_pipe.machine.long_arrays import moves
from mlir_async_pipe.machine.terms import contiguous
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.barriers import NUMBERS
from mlir_async_pipe.vocabulary.launch_ids import ALL_LANES
from mlir_async_pipe.vocabulary.ptx_rows import OPERATIONS, TYPE, known_instruction

_CLOCKS = ("clock", "clock64", "globaltimer", "globaltimer.lo")


@semantics(*(f"nvvm.read.ptx.sreg.{name}" for name in _CLOCKS))
def clock(site: Site) -> Execute:
    """A number that grows: the steps of the machine. Nothing else is said of what hardware counts."""
    kind = site.result_kind()

    def execute(unit: Unit) -> Array:
        if unit.launch.memory.induction is not None:
            raise moves("a clock")
        return kind.settle(uniform(unit.launch.steps))

    return execute


@semantics("nvvm.mma.sync")
def mma_sync(site: Site) -> Execute:
    """The product of fragments, with sums of f16, f32, f64 or i32: a register of sums is an operand, and a member of
    the result."""
    counts, sizes = site.segments(), re.findall(r"[mnk] = (\d+)", site.text("shape", ""))
    register = site.operand_kind(sum(counts) - 1)
    kinds = [_factor_kind(site, side, at) for side, at in (("A", 0), ("B", counts[0]))]
    m, n, k = map(int, sizes)
    layouts = fragments.nvidia(m, n, k, 8 * kinds[0].item_bytes)
    sums = replace(register, shape=())
    starts = (0, counts[0], counts[0] + counts[1])
    saturates = "satfinite" in site.text("intOverflowBehavior")
    arithmetic = ProductArithmetic((kinds[0], kinds[1]), sums.dtype, saturates=saturates)

    def execute(unit: Unit, *values: Array) -> tuple[Array, ...]:
        factors = []
        for start, count, kind in zip(starts, counts, (*kinds, sums), strict=True):
            held = np.stack(
                [lanes_of(one, unit.width) for one in values[start : start + count]], axis=1
            )
            if kind is not sums and held.dtype != kind.dtype:
                held = kind.decode(contiguous(held).view(kind.stored))
            factors.append(held.reshape(unit.width, -1))
        kind = sums.with_shape((factors[2].shape[1],))
        made = fragment_product(unit, site, layouts, tuple(factors), kind, arithmetic)
        registers = made.reshape(unit.width, counts[2], *register.shape)
        return tuple(registers[:, number] for number in range(counts[2]))

    return execute


def _factor_kind(site: Site, side: str, at: int) -> Kind:
    """The type of the elements of A or B: what the op says, else that of its first register."""
    said = re.search(r"mma_type<(\w+)>", site.text(f"multiplicand{side}PtxType", ""))
    held = site.operand_kind(at)
    if said is None or said[1] == held.name:
        return replace(held, shape=())
    if said[1] not in FACTOR_KINDS:
        raise site.unsupported(f"products of {said[1]}")
    return FACTOR_KINDS[said[1]]


@semantics("nvvm.cp.async.shared.global")
def pointer_copy(site: Site) -> Execute:
    """`size` bytes a lane; with a third operand only that many are read, the rest is zeros."""
    return sized_copy(site, site.integer("size") or 0)


def sized_copy(site: Site, size: int) -> Execute:
    """The same of an op that names the size."""
    copy = copier(site)

    def execute(unit: Unit, target: Array, source: Array, *limit: Array) -> None:
        valid = np.clip(limit[0].astype(np.int64), 0, size) if limit else None
        copy(unit, source, target, size, valid)

    return execute


@semantics("nvvm.cp.async.bulk.shared.cluster.global")
def bulk_load(site: Site) -> Execute:
    """Bytes into workgroup memory, once for each active lane; they complete on an mbarrier."""
    operands = MbarrierOperands(site)
    blocks = groups_of(site.op)["multicast"]

    def execute(unit: Unit, *given: Array) -> None:
        addresses, sizes = operands.addresses(unit, given), operands.of(unit, given, "bytes")
        for lane, source, target in _bulk_ends(unit, site, given[1], given[0], sizes):
            mask, at = mask_of(unit, given, blocks, lane), int(addresses[lane])
            for barrier, place in each_target(unit, site, mask, lane, at, target):
                complete_on(copy_of_lane(unit, lane, BYTE, source, place), site, barrier)

    return execute


_REDUCING_BULK = "ptx.cp.reduce.async.bulk.global.shared::cta.bulk_group"


@semantics("nvvm.cp.async.bulk.global.shared.cta", _REDUCING_BULK)
def bulk_store(site: Site) -> Execute:
    """Bytes out of workgroup memory, in the bulk group that each active lane commits next; or elements, which are combined
    with what is there."""
    queue, kind, combine = site.queue(), BYTE, None
    if site.row.op == _REDUCING_BULK:
        name = next(part for part in known_instruction(site.op).parts if TYPE.fullmatch(part))
        # Of bits, signed and unsigned numbers MLIR has one type.
        kind = _kind_called(site, re.sub(r"^[bus](?=\d)", "i", name))
        combine = _combination(site, kind)

    def execute(unit: Unit, target: Array, source: Array, size: Array, *rest: Array) -> None:
        for lane, *ends in _bulk_ends(unit, site, source, target, lanes_of(size, unit.width)):
            first, there = (one[:: kind.item_bytes] for one in ends)
            copy = copy_of_lane(unit, lane, kind, first, there, combine=combine)
            copy.issue(site, queue, is_proxy=True)

    return execute


def _bulk_ends(
    unit: Unit, site: Site, source: Array, target: Array, sizes: Array
) -> Iterator[tuple[int, Array, Array]]:
    """For each active lane the addresses of the bytes that it copies, at both ends, which are to be aligned in lanes that copy something."""
    refuse_in_scope(unit, site)
    for end in (source, target):
        access.aligned(unit, site, access.span(unit, end, 1, unit.active() & (sizes > 0)))
    for lane in map(int, np.flatnonzero(unit.active())):
        size = int(sizes[lane])
        firsts = (access.within_memory(unit, pointer, size) for pointer in (source, target))
        first, there = (int(lanes_of(end, unit.width)[lane]) for end in firsts)
        yield lane, first + np.arange(size), there + np.arange(size)


@semantics("nvvm.ldmatrix")
def load_matrix(site: Site) -> Execute:
    """The pointer form of nvgpu.ldmatrix: 8x8 tiles of 16-bit elements, a register a tile."""
    tiles = site.integer("num") or 1
    transpose = _is_transposed(site)
    single = tiles == 1

    def execute(unit: Unit, pointer: Array) -> Any:
        warps, naming = matrix_rows(unit, site, tiles)
        first = access.within_memory(unit, pointer, 16)
        where = access.aligned(unit, site, byte_span(unit, first, 16, naming))
        rows = access.read(unit, site, where, BYTE)
        halves = contiguous(lanes_of(rows, unit.width)).view(np.uint16)
        parts = contiguous(matrix_parts(halves, warps, tiles, transpose)).view(np.int32)
        registers = np.zeros_like(parts, shape=(tiles, unit.width))
        registers[:, warps] = np.moveaxis(parts[..., 0], 2, 0)
        return registers[0] if single else tuple(registers)

    return execute


@semantics("nvvm.stmatrix")
def store_matrix(site: Site) -> Execute:
    """The reverse of ldmatrix: lane l has two elements of row l / 4 of each tile, of column l / 4 if it is transposed."""
    tiles, transpose = len(site.op.operands) - 1, _is_transposed(site)

    def execute(unit: Unit, pointer: Array, *registers: Array) -> None:
        warps, naming = matrix_rows(unit, site, tiles)
        held = np.stack([lanes_of(one, unit.width)[warps] for one in registers], axis=1)
        halves = contiguous(held).view(np.uint16).reshape(len(warps), tiles, 8, 8)
        halves = halves.swapaxes(2, 3) if transpose else halves
        rows = np.zeros_like(halves, shape=(unit.width, 8))
        rows[warps[:, : 8 * tiles]] = halves.reshape(len(warps), 8 * tiles, 8)
        first = access.within_memory(unit, pointer, 16)
        where = access.aligned(unit, site, byte_span(unit, first, 16, naming))
        access.write(unit, site, where, contiguous(rows).view(BYTE.dtype), BYTE)

    return execute


def _check_halves(site: Site) -> None:
    if "b16" not in site.text("eltType", "b16"):
        raise site.unsupported("elements that are not 16 bits wide")


def _is_transposed(site: Site) -> bool:
    _check_halves(site)
    return "col" in site.text("layout")


# nvvm.barrier of some threads of a block, and nvvm.barrier.arrive, which does not stop.
#
# A named barrier is an mbarrier without memory: as many arrivals as its threads make a phase, and a
# thread that syncs waits for the phase that it arrived in (PTX ISA, barrier).


@semantics("nvvm.barrier")
def barrier(site: Site) -> Execute:
    """All threads of the block, or as many as the op says, meet at the barrier of its number."""
    groups = groups_of(site.op)
    number, threads, predicate = groups["number"], groups["threads"], groups["predicate"]
    if site.meets != "block":
        return _reducing(site, predicate[0]) if predicate else gpu.barrier(site)
    if predicate:
        raise site.unsupported("barriers of some threads that reduce a predicate")

    def execute(unit: Unit, *operands: Array) -> None:
        count = operands[threads[0]] if threads else uniform(unit.launch.block_size)
        name = operands[number[0]] if number else uniform(0)
        found, lanes = _arrive(unit, site, name, count)
        barrier, phase = found
        unit.launch.scheduler.block(unit, site, [barrier], lambda: barrier.phase > phase)
        unit.launch.mbarriers.waited(barrier, warps_of(unit, lanes))

    return execute


@semantics("nvvm.shfl.sync")
def shuffle(site: Site) -> Execute:
    """A number of another lane of the segment, one's own where that is none (PTX ISA, shfl.sync)."""
    kind = site.word("kind")
    if str(site.result_type()).startswith("!llvm.struct<"):
        raise site.unsupported("whether the lane was in the segment, as a member of a struct")

    def execute(unit: Unit, mask: Array, value: Array, offset: Array, ends: Array) -> Array:
        lane, by, last = unit.threads % 32, offset.astype(np.int64) & 31, ends.astype(np.int64) & 31
        segment = ends.astype(np.int64) >> 8 & 31
        first, end = lane & segment, (lane & segment) | (last & ~segment)
        source = {
            "up": lane - by,
            "down": lane + by,
            "bfly": lane ^ by,
            "idx": first | (by & ~segment),
        }[kind]
        inside = source >= end if kind == "up" else source <= end
        number, _ = gpu.within_warp(unit, np.where(inside, source, lane))
        taken = lanes_of(value, unit.width)
        return np.where(unit.active()[number], taken[number], taken)

    return execute


@semantics("nvvm.movmatrix")
def transpose_matrix(site: Site) -> Execute:
    """A tile of 8x8 elements of 16 bits in the registers of a warp, transposed (PTX ISA, movmatrix)."""
    _check_halves(site)

    def execute(unit: Unit, register: Array) -> Array:
        warps = gpu.whole_warps(unit, site)
        halves = contiguous(lanes_of(register, unit.width)[warps]).view(np.uint16)
        tiles = contiguous(halves.reshape(len(warps), 8, 8).swapaxes(1, 2))
        moved = np.zeros_like(lanes_of(register, unit.width))
        moved[warps] = tiles.reshape(len(warps), 64).view(moved.dtype)
        return moved

    return execute


# Votes, by their kinds: what they make of the predicates, or values, of lanes, and of their numbers.
_VOTES: dict[str, Callable[[Array, Array], Any]] = {
    "any": lambda values, lanes: values.any(),
    "all": lambda values, lanes: values.all(),
    "uni": lambda values, lanes: (values == values[0]).all(),
    "ballot": lambda values, lanes: np.sum(1 << lanes[values]),
}


def _lanes_alike(values: Array, lanes: Array) -> Array:
    return np.sum((values == values[:, None]) << lanes, axis=1)


@semantics("nvvm.vote.sync", "nvvm.redux.sync", "nvvm.match.sync")
def together(site: Site) -> Execute:
    """Lanes of a warp are given what those make together that their mask names (PTX ISA, vote.sync, redux.sync, match.sync)."""
    value_at, kind = int(site.name != "nvvm.redux.sync"), site.word("kind")
    if site.name == "nvvm.vote.sync":
        make = _VOTES[kind]
    elif site.name == "nvvm.match.sync" and kind == "any":
        make = _lanes_alike
    elif site.name == "nvvm.redux.sync" and "true" not in site.text("abs") + site.text("nan"):
        combine = COMBINE.get(kind)
        make = partial(_reduced, combine)
    else:
        raise site.unsupported(f"kind '{kind}'")
    result = site.result_kind()

    def execute(unit: Unit, *operands: Array) -> Array:
        values, masks = (lanes_of(operands[at], unit.width) for at in (value_at, 1 - value_at))
        lanes, warps = unit.threads % 32, unit.threads // 32
        found = np.zeros(unit.width, np.int64 if not result.is_float else result.dtype)
        for warp in np.unique(warps[unit.active()]):
            mine = np.flatnonzero((warps == warp) & unit.active())
            named = masks[mine].astype(np.int64) & ALL_LANES
            if (named != np.sum(1 << lanes[mine])).any():
                unit.report("divergent-warp-op", site, mine[0])
            found[mine] = make(values[mine], lanes[mine])
        return result.settle(found)

    return execute


def _reduced(combine: Any, values: Array, lanes: Array) -> Any:
    return reduce(combine, (values[n : n + 1] for n in range(len(values))))


# What `#nvvm.reduction` makes of the predicates of all threads (PTX ISA, barrier.red).
_REDUCTIONS: dict[str, Callable[[Array], Any]] = {"popc": np.sum, "and": np.all, "or": np.any}


def _reducing(site: Site, predicate: int) -> Execute:
    """All threads of the block meet, and each is given what their predicates make."""
    reduce = _REDUCTIONS[site.word("reductionOp")]
    meet, kind = gpu.barrier(site), site.result_kind()

    def execute(unit: Unit, *operands: Array) -> Array:
        gpu.whole_block(unit, site)
        meet(unit)
        return uniform(kind.settle(reduce(lanes_of(operands[predicate], unit.width) != 0)))

    return execute


@semantics("nvvm.barrier.arrive")
def arrive(site: Site) -> Execute:
    """The active threads arrive, and go on."""
    named = len(site.op.operands) > 1

    def execute(unit: Unit, *operands: Array) -> None:
        _arrive(unit, site, operands[0] if named else uniform(0), operands[-1])

    return execute


def _arrive(
    unit: Unit, site: Site, numbers: Array, counts: Array
) -> tuple[tuple[Mbarrier, int], Array]:
    """The active lanes arrive; gives the barrier, the phase that they arrived in, and the lanes."""
    refuse_in_scope(unit, site)
    lanes = np.flatnonzero(unit.active())
    given = {
        (int(number), int(count))
        for number, count in zip(
            lanes_of(numbers, unit.width)[lanes], lanes_of(counts, unit.width)[lanes], strict=True
        )
    }
    if len(given) != 1:
        raise site.unsupported("lanes of a unit that name different barriers")
    ((number, count),) = given
    if number >= NUMBERS:
        unit.report("out-of-bounds", site, lanes[0])
    # Negative, and so the address of no mbarrier.
    key, barriers = -1 - number - NUMBERS * unit.rank, unit.launch.mbarriers
    if key not in barriers.at:
        barriers.init(key, f"barrier {number}{unit.launch.here}", site.number, count)
    barrier: Mbarrier = barriers.at[key]
    if barrier.count != count:
        raise site.unsupported(f"barrier {number} of {count} threads, and of {barrier.count}")
    phase, warps = barrier.phase, warps_of(unit, lanes)
    # Who has arrived may not come again before the phase is over (PTX ISA, barrier.arrive).
    if any(barrier.arrived.get(warp) == phase for warp in warps):
        unit.report("too-many-arrivals", site, lanes[0], barrier.site)
    barrier.arrived.update(dict.fromkeys(warps, phase))
    if not barriers.arrive(barrier, warps, len(lanes), 0):
        raise site.unsupported(f"more than {count} threads at barrier {number}")
    return (barrier, phase), lanes


# PTX instructions for which NVVM has no op (`vocabulary.ptx_rows`).
#
# What `multimem` addresses stands for the memory of several devices; the machine has one: what it reads is what is
# there, and what it stores is stored once.


def _span(unit: Unit, site: Site, pointer: Array, kind: Kind, number: int) -> access.ByteSpan:
    """Register `number` of those that an instruction moves from a pointer on."""
    return pointer_span(unit, site, pointer + number * kind.item_bytes, kind)


@semantics("ptx.multimem.ld_reduce")
def load_reduced(site: Site) -> Execute:
    found = known_instruction(site.op)
    kind = _register_kind(site, found.size // found.results)

    def execute(unit: Unit, pointer: Array) -> Any:
        values = tuple(
            access.read(unit, site, _span(unit, site, pointer, kind, number), kind)
            for number in range(found.results)
        )
        return values if len(values) > 1 else values[0]

    return execute


def _register_kind(site: Site, size: int) -> Kind:
    """Of the registers of a result; more than one are a struct."""
    text = str(site.op.results[0].type).removeprefix("!llvm.struct<(").split(",")[0].rstrip(")>")
    return _checked([_kind_called(site, text)], site, size)[0]


def _kind_called(site: Site, text: str) -> Kind:
    return kind_of(ir.Type.parse(text, site.op.context), site.op)


def _checked(kinds: list[Kind], site: Site, size: int) -> list[Kind]:
    """The kinds of registers, which have so many bytes together."""
    if sum(kind.item_bytes for kind in kinds) != size:
        raise site.unsupported("elements that are narrower than their registers")
    return kinds


@semantics("ptx.multimem.st", "ptx.multimem.red")
def store_to_all(site: Site) -> Execute:
    found = known_instruction(site.op)
    kinds = [kind_of(value.type, site.op) for value in list(site.op.operands)[1:]]
    _checked(kinds, site, found.size)
    combine = None
    if site.row.op == "ptx.multimem.red":
        if any("x2" in part or "16" in part for part in found.parts):
            raise site.unsupported("it adds, compares and combines numbers of 32 and 64 bits")
        combine = _combination(site, kinds[0])

    def execute(unit: Unit, pointer: Array, *values: Array) -> None:
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
            where = _span(unit, site, pointer, kind, number)
            if combine is None:
                access.write(unit, site, where, value, kind)
            else:
                atomic_update(unit, site, where, kind, combining(unit, combine, value))

    return execute


def _combination(site: Site, kind: Kind) -> Combine:
    """How an instruction that reduces combines numbers."""
    parts = known_instruction(site.op).parts
    name = next((one for one in parts if one in OPERATIONS), "")
    return reduction(site, name, kind, unsigned=bool(parts & {"u32", "u64"}))


@semantics("ptx.st.async", "ptx.red.async")
def store_asynchronously(site: Site) -> Execute:
    """Each lane's values land later, or are combined with what is there; the mbarrier counts their bytes."""
    kinds = [kind_of(value.type, site.op) for value in list(site.op.operands)[1:-1]]
    _checked(kinds, site, known_instruction(site.op).size)
    kind, steps = kinds[0], np.arange(len(kinds)) * kinds[0].item_bytes
    combine = _combination(site, kind) if site.row.adds else None

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        target, *values, barrier = (lanes_of(value, unit.width) for value in given)
        for lane in map(int, np.flatnonzero(unit.active())):
            place = int(target[lane]) + steps
            stored = np.array([value[lane] for value in values], kind.dtype)
            copy = copy_of_lane(unit, lane, kind, place, place, False, combine)
            complete_on(copy, site, int(barrier[lane]), stored)

    return execute


@semantics("nvvm.clusterlaunchcontrol.try.cancel")
def try_to_cancel(site: Site) -> Execute:
    """The answer is that all blocks run already: zeros."""
    if site.has("multicast"):
        raise site.unsupported("an answer to all blocks of a cluster")
    kind = _kind_called(site, "i32")

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        target, barrier = (lanes_of(value, unit.width) for value in given)
        for lane in map(int, np.flatnonzero(unit.active())):
            place = int(target[lane]) + 4 * np.arange(4)
            copy = copy_of_lane(unit, lane, kind, place, place, False)
            complete_on(copy, site, int(barrier[lane]), np.zeros(4, np.int32))

    return execute
