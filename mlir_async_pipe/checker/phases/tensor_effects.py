"""What ops do to tensor memory on a path (`tensor_state`): products, loads, waits and fences.

    nvvm.tcgen05.mma %sums, %a, %b, …      reads what its descriptors name, fills N columns of %sums
    nvvm.tcgen05.ld %from                  as many columns as it has registers
    nvvm.tcgen05.st %to, %registers        likewise

Columns are distinguished by what is added to the same value. Copies and shifts are not followed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mlir_async_pipe.bindings.raw_ops import constant_value
from mlir_async_pipe.checker.forms import Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import address_of, address_parts, is_address, threads_of
from mlir_async_pipe.checker.phases.byte_places import BytePlace, ByteRange, described_region
from mlir_async_pipe.checker.phases.generic_effects import (
    Bounds,
    Effect,
    GenericEffects,
    not_followed,
)
from mlir_async_pipe.checker.phases.mbarrier_state import Touch
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.phases.tensor_state import QUARTERS, Cells, Product
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WARP, warps_of
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.facts.values.memory_roots import columns_after
from mlir_async_pipe.vocabulary import groups_of
from mlir_async_pipe.vocabulary.products import matrix_descriptor
from mlir_async_pipe.vocabulary.rows import Tensor
from mlir_async_pipe.vocabulary.tensor_memory import (
    COLUMNS,
    K_BYTES,
    LANE,
    LANES_OF_WARP,
    OF_WARPS,
    SMALLEST_ALLOCATION,
    fence_side,
    product_kind,
    product_shape,
    waits_for,
)


def tensor_effect(run: Run, done: Tensor, effects: GenericEffects) -> Effect | None:
    """What an op does that does this to tensor memory, None if it does nothing here. A product with an unknown
    descriptor may read all roots that are touched."""
    effect, number = _effect(run, done, effects), effects.number(run)
    if done.use not in OF_WARPS:
        return effect

    def of_warps(spot: Spot) -> None:
        for warp, lanes in _warps(spot):
            if lanes != spot.memory.everybody & LANES << WARP * warp:
                note = "all lanes of a warp must come here together"
                raise PhaseFault("divergent-warp-op", number, number, note)
        if effect is not None:
            effect(spot)

    return of_warps


def _warps(spot: Spot) -> list[tuple[int, int]]:
    """The warps that are there, with those of their threads that are."""
    mask = spot.threads()
    return [(warp, mask & LANES << WARP * warp) for warp in threads_of(warps_of(mask))]


def _effect(run: Run, done: Tensor, effects: GenericEffects) -> Effect | None:
    op, number = run.op, effects.number(run)
    match done:
        case Tensor("permit"):
            return None
        case Tensor("dealloc"):
            count = constant_value(op.operands[1])
            given = _cells(run, effects, count)
            return partial(_given_back, given, count, number, effects.bounds)
        case Tensor("alloc"):
            return _allocation(run, number, effects.bounds)
        case Tensor("product", plain=True):
            return _product(run, number, effects)
        case Tensor("load" | "store", plain=True) if not groups_of(op)["offset"]:
            cells = _cells(run, effects, *_moved(op))

            def move(spot: Spot) -> None:
                spot.memory.use_tensor(done.use, cells(spot), number, spot.threads())
                _check_lanes(run, number, spot)

            return move
        case Tensor("wait"):
            step = "landed" if waits_for(op) == "load" else "stored"
            return lambda spot: spot.memory.tensor_step(step, spot.threads())
        case Tensor("fence"):
            side = f"fence_{fence_side(op)}"
            return lambda spot: spot.memory.tensor_step(side, spot.threads())
    return not_followed


def _product(run: Run, number: int, effects: GenericEffects) -> Effect:
    op = run.op
    groups = groups_of(op)
    instruction = constant_value(op.operands[groups["instruction"][0]])
    shape = None if instruction is None else product_shape(product_kind(op), instruction)
    sums = _cells(run, effects, None if shape is None else shape.n)
    in_tensor = str(op.operands[groups["matrix_a"][0]].type).startswith("!llvm.ptr")
    if in_tensor:
        return not_followed
    sides = [
        (groups["matrix_a"][0], shape and shape.m, shape is not None and shape.by_k[0]),
        (groups["matrix_b"][0], shape and shape.n, shape is not None and shape.by_k[1]),
    ]

    def execute(spot: Spot) -> None:
        mask = spot.threads()
        reads: list[Touch] = []
        for operand, rows, by_k in sides:
            value = spot.get(run.operands[operand])
            regions: list[ByteRange] = []
            if isinstance(value, Form) and is_address(value) and rows:
                atom, numbers = address_parts(value, spot.mask)
                root = int(str(atom.key))
                spans = (_described(bits, rows, by_k) for bits in numbers)
                regions = [region for some in spans for region in described_region(root, some)]
                for region in regions:
                    effects.bounds.check(region, number)
            everything = [ByteRange(root) for root in sorted(effects.touched)]
            reads += [Touch(region, number, mask) for region in regions or everything]
        spot.memory.issue_product(Product(number, mask, tuple(reads), sums(spot)))

    return execute


def _described(bits: int, rows: int, by_k: bool) -> list[tuple[int, int]] | None:
    """Where an operand lies; the mode of bit 61 swizzles by 32 bytes, which nothing here has."""
    found = None if bits >> 61 & 1 else matrix_descriptor(bits)
    if found is None:
        return []
    return found.spans(rows, K_BYTES, by_k) if found.is_aligned else None


def _allocation(run: Run, number: int, bounds: Bounds) -> Effect:
    """The first lane of a warp writes where its columns begin."""
    bounds.add_columns(run)
    count = constant_value(run.op.operands[1])

    def execute(spot: Spot) -> None:
        if count is None:
            raise NotFollowedError("unknown-number")
        if count & (count - 1) or not SMALLEST_ALLOCATION <= count <= COLUMNS:
            note = f"{count} columns are no power of two from {SMALLEST_ALLOCATION} to {COLUMNS}"
            raise PhaseFault("no-columns", number, number, note)
        warps = _warps(spot)
        spot.memory.tensor.took(number, count, len(warps))
        place = spot.get(run.operands[0])
        if not isinstance(place, BytePlace):
            raise NotFollowedError("unknown-place")
        lowest = sum(lanes & -lanes for _, lanes in warps)
        region = ByteRange(place.root)
        if place.low is not None and place.low == place.high:
            region = ByteRange(place.root, place.low, place.low + 4, True)
        spot.memory.allocate(Touch(bounds.check(region, number), number, lowest))

    return execute


def _given_back(
    given: Callable[[Spot], Cells], count: int | None, number: int, bounds: Bounds, spot: Spot
) -> None:
    """Columns are given back: all that some op took."""
    cells, warps = given(spot), _warps(spot)
    spot.memory.use_tensor("give_back", cells, number, spot.threads())
    if count is None:
        raise NotFollowedError("unknown-number")
    taken = None
    if isinstance(cells.base, int) and cells.low is not None:
        taken = -1 - cells.base
        bounds.check_given_back(taken, cells.low, count, number)
        if len(warps) > 1 and cells.high == cells.low + count:
            note = f"each of {len(warps)} warps gives them back"
            raise PhaseFault("out-of-bounds", number, taken, note)
    elif len(warps) > 1:
        raise NotFollowedError("unknown-place")
    for _ in warps:
        spot.memory.tensor.returned(taken, count)


def _moved(op: Any) -> tuple[int, bool]:
    """The columns that a load or store touches, at most; whether it touches all of them."""
    kind = (op.results[0] if len(op.results) else op.operands[1]).type
    registers = kind.shape[0] if str(kind).startswith("vector<") else 1
    by_lane = "32x32b" in str(op.attributes["shape"]).lower()
    return int(registers) * (1 if by_lane else 4), by_lane


def _check_lanes(run: Run, number: int, spot: Spot) -> None:
    """Each warp touches the lanes of its number modulo 4."""
    address = spot.get(run.operands[0])
    if not isinstance(address, Form) or not is_address(address):
        return
    height = LANES_OF_WARP // (1 if _moved(run.op)[1] else 2)
    for warp, lanes in _warps(spot):
        own = LANES_OF_WARP * (warp % QUARTERS)
        found = {at // LANE for at in address_parts(address, lanes)[1]}
        wrong = {at for at in found if not own <= at <= own + LANES_OF_WARP - height or at % height}
        if wrong:
            note = f"warp {warp} of the block has lanes {own} to {own + LANES_OF_WARP - 1}, and not {min(wrong)}"
            raise PhaseFault("wrong-lanes", number, number, note, wrong == found)


def _cells(
    run: Run, effects: GenericEffects, columns: int | None, all_of_them: bool = True
) -> Callable[[Spot], Cells]:
    """The cells from the address on that is operand 0: by its number where that is known, else by
    the ops that it is made of."""
    size = COLUMNS if columns is None else columns
    sure = 1 if columns is None or not all_of_them else columns
    base, offset = columns_after(run.op.operands[0])
    written = Cells() if base is None else Cells(base, offset, offset + size)

    def cells(spot: Spot) -> Cells:
        address = spot.get(run.operands[0])
        if not isinstance(address, Form) or not is_address(address):
            return written
        atom, numbers = address_parts(address, spot.mask)
        found = {at % LANE for at in numbers}
        taken, number = -1 - int(str(atom.key)), effects.number(run)
        effects.bounds.check_columns(taken, min(found), sure, number)
        return Cells(atom.key, min(found), max(found) + size)

    return cells


def columns_of(op: int) -> Form:
    """The address of the columns that an op takes, as a number of its own."""
    return address_of(-1 - op, 0)
