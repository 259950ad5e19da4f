"""Makes NVIDIA's asynchronous copy ops (cp.async): copies, groups and waits."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import Operation, Value, before, create, erase
from mlir_async_pipe.targets.scopes import CopyPair
from mlir_async_pipe.vocabulary import accesses

TOKEN_TYPE = "!nvgpu.device.async.token"
# PTX ISA, cp.async.cg: only 16-byte copies can bypass the first-level cache.
BYPASS_BYTES = 16


def create_copies(pair: CopyPair) -> None:
    """load; store  -->  nvgpu.device_async_copy, one for each piece of the pair.

    The copies stand where the store stood; the load and the store are erased.
    """
    (source,), (target,) = accesses(pair.load), accesses(pair.store)
    context = pair.store.context
    elements = pair.piece_bytes // pair.element_bytes
    attributes: dict[str, Any] = {
        "dstElements": ir.IntegerAttr.get(ir.IndexType.get(context), elements),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
            [1, len(target.indices), 1, len(source.indices), 0], context
        ),
    }
    if pair.piece_bytes == BYPASS_BYTES:
        attributes["bypassL1"] = ir.UnitAttr.get(context)
    for first in range(0, pair.elements, elements):
        create(
            "nvgpu.device_async_copy",
            [
                target.memory,
                *_shifted(target.indices, first, pair.store),
                source.memory,
                *_shifted(source.indices, first, pair.store),
            ],
            [ir.Type.parse(TOKEN_TYPE, context)],
            attributes,
            ip=before(pair.store),
            loc=pair.store.location,
        )
    erase([pair.load, pair.store])


def create_group(ip: Any, loc: Any) -> Operation:
    """Commit everything that was issued since the last commit as one group."""
    token = ir.Type.parse(TOKEN_TYPE, loc.context)
    return create("nvgpu.device_async_create_group", results=[token], ip=ip, loc=loc)


def create_wait(count: int | None, token: Value | None, ip: Any, loc: Any) -> None:
    """Wait until at most `count` groups are in flight (None, like 0: until none is)."""
    i32 = ir.IntegerType.get_signless(32, loc.context)
    number = ir.IntegerAttr.get(i32, count or 0)
    if token is None:
        create("nvvm.cp.async.wait.group", attributes={"n": number}, ip=ip, loc=loc)
    else:
        create("nvgpu.device_async_wait", [token], attributes={"numGroups": number}, ip=ip, loc=loc)


def _shifted(indices: tuple[Value, ...], offset: int, anchor: Operation) -> list[Value]:
    """The subscripts, the last one `offset` elements further on."""
    if offset == 0:
        return list(indices)
    index = ir.IndexType.get(anchor.context)
    constant = create(
        "arith.constant",
        results=[index],
        attributes={"value": ir.IntegerAttr.get(index, offset)},
        ip=before(anchor),
        loc=anchor.location,
    )
    moved = create(
        "arith.addi",
        [indices[-1], constant.results[0]],
        [index],
        ip=before(anchor),
        loc=anchor.location,
    )
    return [*indices[:-1], moved.results[0]]
