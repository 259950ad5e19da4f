"""Threads, blocks, queues and the adversary that decides when async data arrives.

eager   at the issue            late   at the wait that retires it, the youngest first
random  at any moment between, the source read and the destination written separately

In programs with flags it also decides what a read sees of writes that did not happen before it:
the newest value (eager), the oldest that may still be there (late), or either (random). All blocks
of such a program run together; a thread that spins lets the others run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from helpers.second_machine import memory
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.happens_before import Clock, Forked, Shadow, meet
from helpers.second_machine.memory import Buffer, Pointer, View
from helpers.second_machine.memory_order import PLAIN, Order
from helpers.second_machine.syntax import NotJudged

POISON = 0xCD
# What an instruction gives besides the number of the next one.
BARRIER, ENTER, LEAVE, YIELD = -1, -2, -3, -4
# Rounds in which all threads spin and nobody writes: they spin for ever.
IDLE_ROUNDS = 100
# The largest counts of the hardware: a wait for more waits for that many.
LARGEST = {"cp.async": 63, "async-lds": 15}
OF_FUNCTIONS = ("async-lds",)


@dataclass(eq=False)
class Copy:
    """An async operation in flight in one thread; `steps` move its data, one after the other."""

    ordinal: int
    line: int
    forked: Forked
    steps: list[Callable[[], None]]
    committed: bool = False

    def arrive(self) -> None:
        """Move what is not moved yet."""
        while self.steps:
            self.steps.pop(0)()


@dataclass(eq=False)
class Fifo:
    """One queue of one thread: ordinals of committed groups, operations in flight."""

    issued: int = 0
    marks: list[int] = field(default_factory=list)
    pending: list[Copy] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    taken: int = 0
    slots: int = 0


@dataclass(eq=False)
class Frame:
    """One activation of a function: registers, marks of its own, the way that led to it."""

    code: list
    registers: list
    back: int = 0
    results: list[int] = field(default_factory=list)
    path: tuple = ()
    marks: dict[str, list[int]] = field(default_factory=dict)


class Thread:
    """One thread: runs instructions until a barrier or its end."""

    def __init__(self, block: Block, number: int) -> None:
        self.block, self.number, self.world = block, number, block.world
        self.clock = Clock(block.number * block.size + number, block.number)
        self.queues: dict[str, Fifo] = {}
        self.frames: list[Frame] = []
        self.entering: Frame | None = None
        self.handed: list = []
        self.at_barrier: tuple | None = None
        # The line at which it stopped to let others run.
        self.spins = 0
        self.spaces: frozenset[str] = frozenset()
        self.next = 0
        self.done = False
        self.rounds: dict[int, int] = {}
        # The look at a scope's region that is running, and whether its real run is.
        self.scope: Scope | None = None
        self.in_scope = False
        self.depth_of_regions = 0

    def run(self, frame: Frame | None = None) -> None:
        """Up to the next barrier or turn of a loop that spins, or the end of `frame`."""
        self.spins = 0
        if frame is not None:
            self.frames.append(frame)
            self.next = 0
        bottom = len(self.frames) if frame is not None else 1
        world, at = self.world, self.next
        frame = self.frames[-1]
        code, registers = frame.code, frame.registers
        while True:
            world.steps += 1
            then = code[at](self, registers)
            if then is None:
                at += 1
            elif then >= 0:
                at = then
                if world.steps > world.step_limit:
                    raise NotJudged("the program does not end in time")
            elif then == ENTER:
                self.entering.back = at + 1
                self.frames.append(self.entering)
                if len(self.frames) > 200:
                    raise NotJudged("recursion")
                frame, at = self.entering, 0
                code, registers = frame.code, frame.registers
            elif then == LEAVE:
                left = self.frames.pop()
                if len(self.frames) < bottom:
                    self.done = True
                    return
                frame, at = self.frames[-1], left.back
                code, registers = frame.code, frame.registers
                for place, value in zip(left.results, self.handed, strict=True):
                    registers[place] = value
            else:
                self.next = at + 1
                return

    def region(self, code: list, at: int, registers: list) -> None:
        """Run the region of a scope, which starts at instruction `at`."""
        world = self.world
        self.depth_of_regions += 1
        while True:
            world.steps += 1
            then = code[at](self, registers)
            if then is None:
                at += 1
            elif then == LEAVE:
                break
            elif then < 0 or world.steps > world.step_limit:
                raise NotJudged("a scope with calls or without an end")
            else:
                at = then
        self.depth_of_regions -= 1

    # Memory ---------------------------------------------------------------------------------

    def touch(
        self,
        line: int,
        kind: str,
        view: View,
        indices: list[int],
        extent: tuple[int, ...] = (),
        order: Order = PLAIN,
    ) -> list[int] | None:
        """Announce an access; the bytes of its elements in order, None if out of bounds."""
        first = view.address(indices, extent)
        if first is None:
            self.world.shadow.report("out-of-bounds", line)
            return None
        addresses = [first]
        size = view.element.size
        for dimension, length in enumerate(extent, len(view.sizes) - len(extent)):
            step = view.strides[dimension] * size
            addresses = [a + i * step for a in addresses for i in range(length)]
        self.enter(line, kind, view.buffer, addresses, size, order)
        return addresses

    def reach(self, line: int, kind: str, at: Pointer, size: int, order: Order) -> bool:
        """Announce an access through a pointer; False if it is out of bounds."""
        if not 0 <= at.at <= len(at.buffer.data) - size:
            self.world.shadow.report("out-of-bounds", line)
            return False
        self.enter(line, kind, at.buffer, [at.at], size, order)
        return True

    def enter(
        self,
        line: int,
        kind: str,
        buffer: Buffer,
        addresses: list[int],
        size: int,
        order: Order = PLAIN,
    ) -> None:
        """Judge an access, or note it where a scope is only looked at."""
        if order is not PLAIN and (self.in_scope or self.scope is not None):
            raise NotJudged("an ordered access in a scope")
        if self.in_scope:
            return
        granules = self.granules(buffer, addresses, size)
        if self.scope is not None:
            self.scope.note(line, kind, buffer, granules)
            return
        self.world.tick()
        self.judged(line, kind, buffer, granules, order=order)

    def read(self, kind: types.Element, buffer: Buffer, at: int, is_strong: bool = False) -> Any:
        """A number, as this thread sees it."""
        if is_strong or not self.world.past:
            return memory.load(kind, buffer.data, at)
        return memory.load(kind, self.world.seen(self.clock, buffer, at, kind.size), 0)

    def write(
        self, kind: types.Element, buffer: Buffer, at: int, value: Any, is_strong: bool = False
    ) -> None:
        """A number; others see a plain write when it happened before what they do."""
        self.world.overwritten(self.clock, buffer, at, kind.size, is_strong)
        memory.store(kind, buffer.data, at, value)

    def judged(
        self,
        line: int,
        kind: str,
        buffer: Buffer,
        granules: list[tuple[int, int]],
        forked: Forked | None = None,
        order: Order = PLAIN,
    ) -> None:
        """Look at one access of now: races, and memory that holds nothing yet."""
        shadow = self.world.shadow
        if buffer.written is not None:
            numbers = [number for _, number in granules]
            if kind == "write":
                buffer.written.update(numbers)
            elif not buffer.written.issuperset(numbers):
                shadow.report("uninitialised-read", line)
        shadow.access(self.clock, line, kind, buffer.space, granules, forked, order)

    def granules(self, buffer: Buffer, addresses: list[int], size: int) -> list[tuple[int, int]]:
        """The units of race detection that elements of `size` bytes cover."""
        unit, number = self.world.granule, buffer.serial
        if size == unit:
            return [(number, a // unit) for a in addresses]
        each = range(0, size, unit)
        return [(number, (a + i) // unit) for a in addresses for i in each]

    # Queues ---------------------------------------------------------------------------------

    def fifo(self, queue: str) -> Fifo:
        """The queue, made on first use."""
        return self.queues.setdefault(queue, Fifo())

    def marks(self, queue: str) -> list[int]:
        """The groups that a wait counts: the thread's, or the running function's."""
        if queue in OF_FUNCTIONS:
            return self.frames[-1].marks.setdefault(queue, [])
        return self.fifo(queue).marks

    def issue(
        self,
        queue: str,
        line: int,
        accesses: list[tuple[str, Buffer, list[tuple[int, int]]]],
        steps: list[Callable[[], None]],
        poisoned: list[tuple[Buffer, int]],
        came_from: tuple | None = None,
    ) -> None:
        """Start an async operation; `came_from` tells from where each byte comes."""
        fifo, forked = self.fifo(queue), Forked(self.clock.thread, came_from=came_from)
        for kind, buffer, granules in accesses:
            self.judged(line, kind, buffer, granules, forked)
        copy = Copy(fifo.issued, line, forked, steps)
        fifo.issued += 1
        fifo.pending.append(copy)
        if self.world.completion == "eager":
            copy.arrive()
            return
        for buffer, at in poisoned:
            buffer.data[at] = POISON
            self.world.past.pop((buffer.serial, at // self.world.granule), None)
        self.world.in_flight.append(copy)

    def commit(self, queue: str) -> int:
        """Close a group; gives its number."""
        marks, fifo = self.marks(queue), self.fifo(queue)
        for copy in fifo.pending:
            copy.committed = True
        marks.append(fifo.issued - 1)
        return len(marks) - 1

    def wait(self, queue: str, left: int) -> None:
        """Block until at most `left` groups are in flight."""
        self.world.tick()
        marks = self.marks(queue)
        position = len(marks) - 1 - min(left, LARGEST.get(queue, left))
        if position >= 0:
            self.retire(queue, marks[position])

    def retire(self, queue: str, last: int) -> None:
        """All operations up to the ordinal `last` are over."""
        fifo = self.fifo(queue)
        over = [copy for copy in fifo.pending if copy.ordinal <= last]
        fifo.pending = [copy for copy in fifo.pending if copy.ordinal > last]
        for copy in reversed(over):
            copy.arrive()
            copy.forked.joined = self.clock.now
        if over and self.world.in_flight:
            gone = set(map(id, over))
            self.world.in_flight = [c for c in self.world.in_flight if id(c) not in gone]


class Scope:
    """A look at what the region of a scope touches."""

    def __init__(self) -> None:
        self.accesses: list[tuple[str, Buffer, list[tuple[int, int]]]] = []

    def note(self, line: int, kind: str, buffer: Buffer, granules: list) -> None:
        """Keep one access."""
        for which in ("read", "write") if kind == "atomic" else (kind,):
            self.accesses.append((which, buffer, granules))


@dataclass(frozen=True)
class Past:
    """What a granule held before a plain write by the thread of `clock`, which was its `at`th."""

    clock: Clock
    at: int
    held: bytes


class World:
    """What all threads share; `past` is what plain writes of programs with flags overwrote."""

    def __init__(
        self, completion: str, seed: int, step_limit: int, granule: int, has_flags: bool = False
    ) -> None:
        self.completion, self.granule, self.has_flags = completion, granule, has_flags
        self.past: dict[tuple[int, int], list[Past]] = {}
        self.changes = 0
        self.order = "forward"
        self.random = Random(seed)
        self.shadow = Shadow()
        self.steps, self.step_limit = 0, step_limit
        self.in_flight: list[Copy] = []
        self.globals: dict[str, Buffer] = {}
        self.wave_bases: dict[tuple, int] = {}

    def overwritten(
        self, clock: Clock, buffer: Buffer, at: int, size: int, is_strong: bool
    ) -> None:
        """A thread writes: a plain write leaves what was there for others to see."""
        self.changes += 1
        if not self.has_flags or buffer.space == "private":
            return
        unit = self.granule
        for number in range(at // unit, (at + size - 1) // unit + 1):
            key = buffer.serial, number
            if is_strong:
                self.past.pop(key, None)
            else:
                held = bytes(buffer.data[number * unit : (number + 1) * unit])
                self.past.setdefault(key, []).append(Past(clock, clock.now, held))

    def seen(self, clock: Clock, buffer: Buffer, at: int, size: int) -> bytearray:
        """Bytes of a buffer as the thread of `clock` may see them."""
        unit = self.granule
        first, last = at // unit, (at + size - 1) // unit + 1
        data = buffer.data[first * unit : last * unit]
        for number in range(first, last):
            for past in reversed(self.past.get((buffer.serial, number), ())):
                known = clock.known[buffer.space].get(past.clock.thread, 0)
                if past.clock.thread == clock.thread or known >= past.at:
                    break
                if self.completion == "eager" or (
                    self.completion == "random" and self.random.random() < 0.5
                ):
                    break
                start = (number - first) * unit
                data[start : start + len(past.held)] = past.held
        return data[at - first * unit :]

    def yields(self) -> bool:
        """Whether a thread stops before a strong access."""
        return self.order == "random" and self.has_flags and self.random.random() < 0.5

    def tick(self) -> None:
        """One operation in flight may take a step."""
        if self.completion != "random" or not self.in_flight or self.random.random() >= 0.25:
            return
        copy = self.random.choice(self.in_flight)
        if copy.steps:
            copy.steps.pop(0)()


class Block:
    """The threads of one block and their workgroup memory."""

    def __init__(self, world: World, number: int, shape: tuple, warp: int, grid: tuple) -> None:
        self.world, self.number, self.shape, self.warp, self.grid = world, number, shape, warp, grid
        self.index = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
        self.size = shape[0] * shape[1] * shape[2]
        self.shared: dict[tuple, Buffer] = {}
        self.threads: list[Thread] = []
        self.frames: dict[Thread, Frame] = {}

    def begin(self, start: Callable[[Thread], Frame]) -> None:
        """Make its threads."""
        self.threads = [Thread(self, number) for number in range(self.size)]
        self.frames = {thread: start(thread) for thread in self.threads}

    def meet(self) -> bool:
        """Let the threads pass the barrier that all of them wait at. Raises Diverged."""
        left = [thread for thread in self.threads if not thread.done]
        if not left or any(thread.at_barrier is None for thread in left):
            return False
        if len(left) < len(self.threads) or len({t.at_barrier for t in left}) > 1:
            for thread in left:
                self.world.shadow.report("divergent-barrier", thread.at_barrier[0])
            raise Diverged
        meet([thread.clock for thread in left], left[0].spaces)
        for thread in left:
            thread.at_barrier = None
        return True

    def finish(self) -> None:
        """What is in flight at the end arrives, and is reported."""
        for thread in self.threads:
            self._finish(thread)

    def _finish(self, thread: Thread) -> None:
        for fifo in thread.queues.values():
            for copy in fifo.pending:
                code = "unwaited-copy" if copy.committed else "uncommitted-copy"
                self.world.shadow.report(code, copy.line)
                copy.arrive()
            fifo.pending = []
        self.world.in_flight = []


class Diverged(Exception):
    """Threads of a block wait at different barriers: what would follow means nothing."""


def run_together(world: World, blocks: list[Block], start: Callable, order: str) -> None:
    """All threads of some blocks to their end, each up to its next barrier or spin at a time."""
    world.order = order
    for block in blocks:
        block.begin(start)
    idle = 0
    while idle < IDLE_ROUNDS:
        running = [t for b in blocks for t in b.threads if not t.done and t.at_barrier is None]
        if order == "backward":
            running.reverse()
        elif order == "random":
            world.random.shuffle(running)
        changes = world.changes
        for thread in running:
            thread.run(thread.block.frames.pop(thread, None))
        try:
            met = [block.meet() for block in blocks]
        except Diverged:
            break
        if all(thread.done for block in blocks for thread in block.threads):
            break
        went_on = any(met) or any(thread.done or thread.at_barrier for thread in running)
        idle = 0 if went_on or world.changes != changes else idle + 1
    else:
        for thread in (t for b in blocks for t in b.threads if t.spins):
            world.shadow.report("deadlock", thread.spins)
    for block in blocks:
        block.finish()
