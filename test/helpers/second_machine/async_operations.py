"""Copies, commits, waits, scopes and barriers.

A copy reads its source and writes its destination at any moment between its issue and the wait
that retires it (PTX ISA, cp.async; LLVM, AMDGPU asynchronous operations; TVM RFC 0077).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.control_flow import Writer
from helpers.second_machine.machine import BARRIER, LEAVE, Scope
from helpers.second_machine.plain_operations import put_result
from helpers.second_machine.syntax import NotJudged, Operation

Build = Callable[[Writer, Operation], None]
EVERYWHERE = frozenset({"global", "workgroup", "private"})


def queue_of(w: Writer, op: Operation) -> str:
    """The FIFO: a vendor has one for all copies, which abstract queues share."""
    shared = {"nvidia": "cp.async", "amd": "async-lds"}.get(w.program.vendor)
    if op.name.startswith("async_pipe."):
        if "queue" not in op.attributes:
            raise NotJudged("a queue that is no constant")
        return shared or f"queue {op.integer('queue')}"
    if op.name.startswith(("nvgpu.", "nvvm.")):
        return shared or "cp.async"
    return "async-lds"


def own_queue_of(op: Operation) -> str:
    """The abstract queue by itself, whatever it shares: who takes, takes from this one."""
    if "queue" not in op.attributes:
        raise NotJudged("a queue that is no constant")
    return f"own queue {op.integer('queue')}"


def _segments(op: Operation, groups: int) -> list[list[int]]:
    """Operand numbers of each group."""
    found, start = [], 0
    for length in op.integers("operandSegmentSizes"):
        found.append(list(range(start, start + length)))
        start += length
    if len(found) != groups:
        raise NotJudged(f"{op.name} with {len(found)} groups of operands")
    return found


def issue(
    t: Any, queue: str | None, line: int, source: tuple, target: tuple, size: int, valid: int
) -> None:
    """Copy `size` bytes; from byte `valid` on zeros are written and nothing is read. `source`
    and `target` are (buffer, byte) pairs; without a queue it happens now."""
    (origin, start), (place, at) = source, target
    accesses = []
    unit = t.world.granule
    if valid > 0:
        accesses.append(("read", origin, _granules(origin, start, valid, unit)))
    accesses.append(("write", place, _granules(place, at, size, unit)))
    held = bytearray(size)

    clock = t.clock.frozen()

    def sample() -> None:
        if valid > 0:
            held[:valid] = t.world.seen(clock, origin, start, valid)[:valid]

    def write() -> None:
        place.data[at : at + size] = held
        t.world.changes += 1

    if t.scope is not None:
        for kind, buffer, granules in accesses:
            t.scope.note(line, kind, buffer, granules)
    elif queue is None or t.in_scope:
        if not t.in_scope:
            for kind, buffer, granules in accesses:
                t.judged(line, kind, buffer, granules)
        sample()
        write()
    else:
        came_from = (line, origin.serial, start - at, valid - at)
        poisoned = [(place, byte) for byte in range(at, at + size)]
        t.issue(queue, line, accesses, [sample, write], poisoned, came_from)


def _granules(buffer: Any, start: int, size: int, unit: int) -> list[tuple[int, int]]:
    return [(buffer.serial, g) for g in range(start // unit, (start + size - 1) // unit + 1)]


def _device_copy(w: Writer, op: Operation) -> None:
    to, to_at, source, from_at, limit = _segments(op, 5)
    names = w.registers(op.operands)
    count, line, queue = op.integer("dstElements"), op.line, queue_of(w, op)

    def compute(t: Any, r: list) -> int:
        token = len(t.marks(queue))
        given = [r[name] for name in names]
        target, origin = given[to[0]], given[source[0]]
        read = max(0, min(given[limit[0]], count)) if limit else count
        place = target.address([given[i] for i in to_at], (count,))
        start = origin.address([given[i] for i in from_at], (read,)) if read else 0
        if place is None or start is None:
            t.world.shadow.report("out-of-bounds", line)
            return token
        size = target.element.size
        ends = (origin.buffer, start), (target.buffer, place)
        issue(t, queue, line, *ends, count * size, read * size)
        return token

    put_result(w, op, compute)


def _gather(w: Writer, op: Operation) -> None:
    """One LDS address a wave; lane l writes l transfers after it."""
    groups = op.integers("operandSegmentSizes")
    if len(groups) != 4:
        raise NotJudged(op.name)
    source, from_at, to, to_at = _segments(op, 4)
    names, line = w.registers(op.operands), op.line
    moved = types.value(op.attributes["transferType"])
    size, count = moved.count * moved.element.size, moved.count
    queue = queue_of(w, op) if "async" in op.attributes else None
    counters = w.counters

    def put(t: Any, r: list) -> None:
        given = [r[name] for name in names]
        origin, target = given[source[0]], given[to[0]]
        start = origin.address([given[i] for i in from_at], (count,))
        place = target.address([given[i] for i in to_at])
        if start is None or place is None:
            t.world.shadow.report("out-of-bounds", line)
            return
        warp = t.block.warp
        moment = (line, t.frames[-1].path, *(r[c] for c in counters), t.block.number)
        known = t.world.wave_bases.setdefault((*moment, t.number // warp), place)
        if known != place:
            raise NotJudged("lanes of a wave name several LDS addresses")
        place += t.number % warp * size
        if place + size > len(target.buffer.data):
            t.world.shadow.report("out-of-bounds", line)
            return
        issue(t, queue, line, (origin.buffer, start), (target.buffer, place), size, size)

    w.emit(put)


def _commit(w: Writer, op: Operation) -> None:
    queue = queue_of(w, op)
    own = own_queue_of(op) if op.name == "async_pipe.commit_queue" else None

    def commit(t: Any, r: list) -> int:
        number = t.commit(queue)
        if own is not None:
            t.fifo(own).groups.append(number)
        return number

    if op.results:
        put_result(w, op, commit)
        return

    def put(t: Any, r: list) -> None:
        commit(t, r)

    w.emit(put)


def _tokens(w: Writer, op: Operation) -> list[int]:
    kinds = zip(op.operands, op.operand_types, strict=True)
    return [w.register(name) for name, kind in kinds if "token" in kind]


def _wait(attribute: str) -> Build:
    def build(w: Writer, op: Operation) -> None:
        queue, line, left = queue_of(w, op), op.line, op.integer(attribute)
        tokens = _tokens(w, op)
        count = None
        if op.name == "async_pipe.wait_queue" and attribute not in op.attributes:
            counts = [n for n, k in zip(op.operands, op.operand_types, strict=True) if k == "index"]
            count = w.register(counts[0]) if counts else None

        def put(t: Any, r: list) -> None:
            groups = len(t.marks(queue))
            if any(r[token] is not None and r[token] >= groups for token in tokens):
                t.world.shadow.report("wait-before-commit", line)
            t.wait(queue, left if count is None else max(0, r[count]))

        w.emit(put)

    return build


def _counter_wait(w: Writer, op: Operation) -> None:
    queue, left = queue_of(w, op), op.integer("count")

    def put(t: Any, r: list) -> None:
        t.world.tick()
        t.retire(queue, t.fifo(queue).issued - left - 1)

    w.emit(put)


def _consumer_wait(w: Writer, op: Operation) -> None:
    queue, own, line = queue_of(w, op), own_queue_of(op), op.line
    given = op.integer("count") if "count" in op.attributes else None

    def put(t: Any, r: list) -> None:
        handed, committed = t.fifo(own), len(t.marks(queue))
        left = 0
        if handed.taken >= len(handed.groups):
            t.world.shadow.report("wait-before-commit", line)
        else:
            left = committed - 1 - handed.groups[handed.taken]
        left = left if given is None else given
        handed.taken += 1
        t.wait(queue, left)

    w.emit(put)


def _slots(change: int) -> Build:
    def build(w: Writer, op: Operation) -> None:
        queue, line = own_queue_of(op), op.line
        depth = op.integer("depth") if "depth" in op.attributes else None

        def put(t: Any, r: list) -> None:
            fifo = t.fifo(queue)
            fifo.slots += change
            if change > 0 and depth is not None and fifo.slots > depth:
                t.world.shadow.report("queue-overflow", line)

        w.emit(put)

    return build


def _scope(w: Writer, op: Operation) -> None:
    """The region runs when the adversary lets it, with the values of now."""
    queue, line = queue_of(w, op), op.line
    over: list[int] = []
    code, first = w.code, len(w.code) + 1

    def put(t: Any, r: list) -> int:
        if t.scope is not None or t.in_scope:
            return first
        frozen = list(r)
        t.scope = look = Scope()
        t.region(code, first, list(frozen))
        t.scope = None

        def run() -> None:
            t.in_scope = True
            t.region(code, first, frozen)
            t.in_scope = False

        unit = t.world.granule
        read = {g for kind, _, granules in look.accesses if kind == "read" for g in granules}
        poisoned = [
            (buffer, number * unit + byte)
            for kind, buffer, granules in look.accesses
            if kind == "write"
            for _, number in (g for g in granules if g not in read)
            for byte in range(unit)
        ]
        t.issue(queue, line, look.accesses, [run], poisoned)
        return over[0]

    w.emit(put)

    def leave(end: Operation) -> None:
        # Inside another scope the region is a part of it; else it was run on its own.
        w.emit(lambda t, r: over[0] if t.depth_of_regions == 0 else LEAVE)

    if any(inner.name == "async_pipe.scope" for inner in _all_operations(op)):
        raise NotJudged("scopes inside scopes")
    w.region(op.regions[0], [], leave)
    w.place(over)


def _all_operations(op: Operation) -> list[Operation]:
    found = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += [inner, *_all_operations(inner)]
    return found


def _spaces(op: Operation) -> frozenset[str]:
    if op.name == "amdgpu.lds_barrier":
        return frozenset({"workgroup"})
    if op.name == "rocdl.s.barrier":
        return frozenset()
    if "address_spaces" not in op.attributes:
        return EVERYWHERE
    return frozenset(s for s in EVERYWHERE if f"<{s}>" in op.attributes["address_spaces"])


def _barrier(w: Writer, op: Operation) -> None:
    spaces, line, counters = _spaces(op), op.line, w.counters

    def meet(t: Any, r: list) -> int:
        if t.scope is not None or t.in_scope:
            raise NotJudged("a barrier in a scope")
        t.world.tick()
        t.at_barrier = (line, t.frames[-1].path, *(r[c] for c in counters))
        t.spaces = spaces
        return BARRIER

    w.emit(meet)


def _fat_buffer(w: Writer, op: Operation) -> None:
    source = w.register(op.operands[0])
    put_result(w, op, lambda t, r: r[source])


OPERATIONS: dict[str, Build] = {
    "nvgpu.device_async_copy": _device_copy,
    "amdgpu.gather_to_lds": _gather,
    "amdgpu.fat_raw_buffer_cast": _fat_buffer,
    "async_pipe.scope": _scope,
    **dict.fromkeys(
        (
            "nvgpu.device_async_create_group",
            "nvvm.cp.async.commit.group",
            "rocdl.asyncmark",
            "async_pipe.commit_queue",
        ),
        _commit,
    ),
    "nvgpu.device_async_wait": _wait("numGroups"),
    "nvvm.cp.async.wait.group": _wait("n"),
    "rocdl.wait.asyncmark": _wait("count"),
    "async_pipe.wait_queue": _wait("count"),
    "rocdl.s.wait.asynccnt": _counter_wait,
    "async_pipe.consumer_wait": _consumer_wait,
    "async_pipe.producer_acquire": _slots(1),
    "async_pipe.consumer_release": _slots(-1),
    **dict.fromkeys(
        (
            "gpu.barrier",
            "nvvm.barrier0",
            "nvvm.barrier",
            "rocdl.barrier",
            "rocdl.s.barrier",
            "amdgpu.lds_barrier",
        ),
        _barrier,
    ),
}
