"""PTX instructions for which NVVM has no op (`vocabulary.ptx_rows`).

What `multimem` addresses stands for the memory of several devices; the machine has one: what it reads is what is
there, and what it stores is stored once.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine import access
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.arith import reduction
from mlir_async_pipe.machine.dialects.async_ops import Combine, copy_of_lane, refuse_in_scope
from mlir_async_pipe.machine.dialects.llvm import pointer_span
from mlir_async_pipe.machine.dialects.memref import atomic_update, combining
from mlir_async_pipe.machine.dialects.nvvm import bulk_bytes, check_ends
from mlir_async_pipe.machine.dialects.tma import complete_on
from mlir_async_pipe.machine.kinds import Kind, kind_of
from mlir_async_pipe.machine.lane_values import Array, lanes_of
from mlir_async_pipe.vocabulary.ptx_rows import OPERATIONS, TYPE, known_instruction


def _span(unit: Unit, site: Site, pointer: Array, kind: Kind, number: int) -> access.ByteSpan:
    """Register `number` of those that an instruction moves from a pointer on."""
    return pointer_span(unit, site, pointer + number * kind.item_bytes, kind)


@semantics("ptx.multimem.ld_reduce")
def load_reduced(site: Site) -> Execute:
    found = known_instruction(site.op)
    kind = _kind(site, found.size // found.results)

    def execute(unit: Unit, pointer: Array) -> Any:
        values = tuple(
            access.read(unit, site, _span(unit, site, pointer, kind, number), kind)
            for number in range(found.results)
        )
        return values if len(values) > 1 else values[0]

    return execute


def _kind(site: Site, size: int) -> Kind:
    """Of the registers of a result; more than one are a struct."""
    text = str(site.op.results[0].type).removeprefix("!llvm.struct<(").split(",")[0].rstrip(")>")
    kind = kind_of(ir.Type.parse(text, site.op.context), site.op)
    if kind.item_bytes != size:
        raise site.unsupported("elements that are narrower than their registers")
    return kind


@semantics("ptx.multimem.st")
def store_to_all(site: Site) -> Execute:
    kinds = [kind_of(value.type, site.op) for value in list(site.op.operands)[1:]]
    _check_width(site, kinds)

    def execute(unit: Unit, pointer: Array, *values: Array) -> None:
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
            access.write(unit, site, _span(unit, site, pointer, kind, number), value, kind)

    return execute


@semantics("ptx.multimem.red")
def combine_with_all(site: Site) -> Execute:
    kinds = [kind_of(value.type, site.op) for value in list(site.op.operands)[1:]]
    _check_width(site, kinds)
    if any("x2" in part or "16" in part for part in known_instruction(site.op).parts):
        raise site.unsupported("it adds, compares and combines numbers of 32 and 64 bits")
    combine = _combination(site, kinds[0])

    def execute(unit: Unit, pointer: Array, *values: Array) -> None:
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
            where = _span(unit, site, pointer, kind, number)
            atomic_update(unit, site, where, kind, combining(unit, combine, value))

    return execute


def _combination(site: Site, kind: Kind) -> Combine:
    """How an instruction that reduces combines numbers."""
    parts = known_instruction(site.op).parts
    name = next((one for one in parts if one in OPERATIONS), "")
    return reduction(site, name, kind, unsigned=bool(parts & {"u32", "u64"}))


@semantics("ptx.cp.reduce.async.bulk.global.shared::cta.bulk_group")
def reduce_bulk(site: Site) -> Execute:
    """Elements out of workgroup memory, combined with what is there until the wait for the bulk group of the lane."""
    parts, queue = known_instruction(site.op).parts, site.queue()
    name = next(part for part in parts if TYPE.fullmatch(part))
    # Of bits, signed and unsigned numbers MLIR has one type.
    name = re.sub(r"^[bus](?=\d)", "i", name)
    kind = kind_of(ir.Type.parse(name, site.op.context), site.op)
    combine = _combination(site, kind)

    def execute(unit: Unit, target: Array, source: Array, size: Array, *hint: Array) -> None:
        refuse_in_scope(unit, site)
        sizes = lanes_of(size, unit.width)
        check_ends(unit, site, source, target, sizes)
        for lane in map(int, np.flatnonzero(unit.active())):
            ends = bulk_bytes(unit, source, target, lane, int(sizes[lane]))
            place, there = (one[:: kind.item_bytes] for one in ends)
            copy = copy_of_lane(unit, lane, kind, place, there, combine=combine)
            copy.issue(site, queue, is_proxy=True)

    return execute


def _check_width(site: Site, kinds: list[Kind]) -> None:
    found = known_instruction(site.op)
    if sum(kind.item_bytes for kind in kinds) != found.size:
        raise site.unsupported("elements that are narrower than their registers")


@semantics("ptx.st.async", "ptx.red.async")
def store_asynchronously(site: Site) -> Execute:
    """Each lane's values land later, or are combined with what is there; the mbarrier counts their bytes."""
    kinds = [kind_of(value.type, site.op) for value in list(site.op.operands)[1:-1]]
    _check_width(site, kinds)
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
    kind = kind_of(ir.Type.parse("i32", site.op.context), site.op)

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        target, barrier = (lanes_of(value, unit.width) for value in given)
        for lane in map(int, np.flatnonzero(unit.active())):
            place = int(target[lane]) + 4 * np.arange(4)
            copy = copy_of_lane(unit, lane, kind, place, place, False)
            complete_on(copy, site, int(barrier[lane]), np.zeros(4, np.int32))

    return execute
