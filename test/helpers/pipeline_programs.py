"""Small loops for the pipeliner's property tests, and what they mean.

A program is a list of assignments on small buffers, one statement each:

    B[0] = 3 A[i] + 1;  C[i] = 3 B[0] + 2                 (chain_2)

This file shares no code with the package: the sequential result is computed here, in plain
Python, and the legality of a schedule by comparing all pairs of statement instances with the
law T(j, k) = (k + stage_j, order_j).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

LENGTH = 16
"""Elements of each array argument; subscripts reach `trips + largest offset`."""


@dataclass(frozen=True)
class Access:
    """`offset` None: the one element of `buffer`; else element i + offset of an array."""

    buffer: str
    offset: int | None = None

    def element(self, iteration: int) -> int:
        """The element that iteration `iteration` touches."""
        return 0 if self.offset is None else iteration + self.offset


@dataclass(frozen=True)
class Assign:
    """target = 3 source_1 + 5 source_2 + … + constant."""

    target: Access
    sources: tuple[Access, ...]

    @property
    def accesses(self) -> tuple[tuple[Access, bool], ...]:
        """Each access with whether it writes, in order of execution."""
        return (*((source, False) for source in self.sources), (self.target, True))


@dataclass(frozen=True)
class Program:
    """`local` buffers have one element and are allocated in the function; all others are
    array arguments that do not alias."""

    name: str
    statements: tuple[Assign, ...]
    local: tuple[str, ...]

    @property
    def arrays(self) -> tuple[str, ...]:
        """The array arguments, sorted by name."""
        used = {a.buffer for s in self.statements for a, _ in s.accesses}
        return tuple(sorted(used - set(self.local)))


@dataclass(frozen=True)
class Schedule:
    """The three annotation arrays."""

    stage: tuple[int, ...]
    order: tuple[int, ...]
    async_stages: tuple[int, ...] = ()

    def is_async(self, statement: int) -> bool:
        """Whether a statement completes later than it is issued."""
        return self.stage[statement] in self.async_stages

    def time(self, statement: int, iteration: int) -> tuple[int, int]:
        """T(j, k)."""
        return iteration + self.stage[statement], self.order[statement]


def _program(name: str, text: str) -> Program:
    """Read `B = A[0]; C[0] = B`: a bare name is a local buffer, `[n]` means element i + n,
    `!` after a bare name makes it an argument of which only element 0 is used."""
    local: set[str] = set()

    def access(word: str) -> Access:
        word = word.strip()
        if "[" in word:
            buffer, offset = word.rstrip("]").split("[")
            return Access(buffer, int(offset))
        if word.endswith("!"):
            return Access(word[:-1])
        local.add(word)
        return Access(word)

    statements = []
    for line in text.split(";"):
        target, sources = line.split("=")
        statements.append(Assign(access(target), tuple(map(access, sources.split("+")))))
    return Program(name, tuple(statements), tuple(sorted(local)))


CHAINS_JOINS_FORKS = (
    _program("chain_2", "B = A[0]; C[0] = B"),
    _program("chain_3", "B = A[0]; C = B; D[0] = C"),
    _program("chain_4", "B = A[0]; C = B; D = C; E[0] = D"),
    _program("join_3", "B = A[0]; C = D[0]; E[0] = B + C"),
    _program("join_4", "B = A[0]; C = D[0]; E = B + C; F[0] = E"),
    _program("join_of_input_and_chain", "B = A[0]; C = B; D[0] = B + C"),
    _program("fork_3", "B = A[0]; C[0] = B; D[0] = B"),
    _program("fork_4", "B = A[0]; C = B; D[0] = B; E[0] = C"),
    _program("diamond", "B = A[0]; C = B; D = B; E[0] = C + D"),
)
"""Every value flows inside one iteration."""

CARRIED = (
    _program("accumulator", "B = A[0]; C! = C! + B"),
    _program("accumulator_read_late", "B = A[0]; C! = C! + B; D[0] = C!"),
    _program("distance_1", "B = A[0]; C[1] = C[0] + B"),
    _program("distance_2", "B = C[0] + A[0]; C[2] = B"),
    _program("anti_distance_1", "B = C[1]; C[0] = B; D[0] = C[0]"),
    _program("updated_in_place", "B = A[0]; B = B; C[0] = B"),
    _program("written_twice", "B = A[0]; C[0] = B; B = D[0]; E[0] = B"),
    _program("written_by_two", "B = A[0]; B = D[0]; C[0] = B"),
    _program("read_before_written", "C[0] = B; B = A[0]"),
    _program("local_accumulator", "B = B + A[0]; C[0] = B"),
    _program("overlapping_outputs", "C[1] = A[0]; C[0] = D[0]"),
)
"""Values, or the order of accesses, cross iterations."""

PROGRAMS = {program.name: program for program in (*CHAINS_JOINS_FORKS, *CARRIED)}


def schedules(statements: int, last_stage: int) -> Iterator[Schedule]:
    """Every stage assignment that has a statement in stage 0, every order, every async subset."""
    for stage in itertools.product(range(last_stage + 1), repeat=statements):
        if min(stage) > 0:
            continue
        used = sorted(set(stage))
        for order in itertools.permutations(range(statements)):
            for size in range(len(used) + 1):
                for chosen in itertools.combinations(used, size):
                    yield Schedule(stage, order, chosen)


# -- what a program means ---------------------------------------------------------------------


def inputs(program: Program) -> list[np.ndarray]:
    """One array an argument, with distinct small numbers."""
    return [
        np.arange(LENGTH, dtype=np.int64) * 7 + 100 * number
        for number, _ in enumerate(program.arrays)
    ]


@cache
def sequential(program: Program, trips: int) -> tuple[tuple[int, ...], ...]:
    """The arrays after `trips` iterations in the original order (64-bit, wrapping)."""
    memory = dict(zip(program.arrays, (list(map(int, a)) for a in inputs(program)), strict=True))
    memory |= {name: [0] for name in program.local}
    for i in range(trips):
        for number, statement in enumerate(program.statements):
            total = number + 1
            for position, source in enumerate(statement.sources):
                total += (3 + 2 * position) * memory[source.buffer][source.element(i)]
            wrapped = (total + 2**63) % 2**64 - 2**63
            memory[statement.target.buffer][statement.target.element(i)] = wrapped
    return tuple(tuple(memory[name]) for name in program.arrays)


@cache
def privatisable(program: Program) -> frozenset[str]:
    """Local buffers of which every read sees what its own iteration wrote."""
    found = set(program.local)
    for buffer in program.local:
        written = False
        for statement in program.statements:
            for access, writes in statement.accesses:
                if access.buffer == buffer:
                    if not writes and not written:
                        found.discard(buffer)
                    written = written or writes
    return frozenset(found)


@dataclass(frozen=True)
class Conflict:
    """Two accesses of one location, one of which writes: `first` comes first in the input."""

    first: int
    second: int
    distance: int
    buffer: str


@cache
def conflicts(program: Program, iterations: int = 6) -> tuple[Conflict, ...]:
    """All pairs of conflicting instances of a run of `iterations`, by enumeration.

    A privatisable buffer has a location of its own in each iteration."""
    renamed = privatisable(program)
    touched: list[tuple[int, int, str, tuple[object, ...], bool]] = []
    for k in range(iterations):
        for j, statement in enumerate(program.statements):
            for access, writes in statement.accesses:
                where = (access.element(k), k if access.buffer in renamed else None)
                touched.append((j, k, access.buffer, where, writes))
    found = {}
    for first, second in itertools.combinations(touched, 2):
        j, k, buffer, where, writes = first
        other, later, other_buffer, other_where, other_writes = second
        same_place = (buffer, where) == (other_buffer, other_where)
        if same_place and (writes or other_writes) and (j, k) != (other, later):
            found[Conflict(j, other, later - k, buffer)] = None
    return tuple(found)


def violated(program: Program, schedule: Schedule) -> tuple[Conflict, ...]:
    """The conflicts whose second end would run before the first one."""
    return tuple(
        c
        for c in conflicts(program)
        if not schedule.time(c.first, 0) < schedule.time(c.second, c.distance)
    )


# -- the program as IR ------------------------------------------------------------------------


def text(
    program: Program, schedule: Schedule, *, trips: int | None = None, options: str = ""
) -> str:
    """The annotated loop as a function of (trip count, arrays); `trips` makes it static.

    `options` are more annotations, for instance `async_pipe.epilogue = "predicate"`."""
    arguments = "".join(
        f", %{name} : memref<{LENGTH}xi64> {{llvm.noalias}}" for name in program.arrays
    )
    lines = [
        f"func.func @f(%n : index{arguments}) {{",
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        *(f"%bound = arith.constant {trips} : index" for _ in range(trips is not None)),
        *(f"%{name} = memref.alloca() : memref<1xi64>" for name in program.local),
        "%start = arith.constant 0 : i64",
        *(
            f"memref.store %start, %{name}[%zero] : memref<1xi64>"
            for name in program.local
            if name not in privatisable(program)
        ),
        f"scf.for %i = %zero to {'%n' if trips is None else '%bound'} step %one {{",
    ]
    for number, statement in enumerate(program.statements):
        lines += ["scf.execute_region no_inline {", *_statement(program, number, statement)]
        lines += ["scf.yield", "}"]
    listed = ", async_pipe.async_stages = array<i64: " + ", ".join(map(str, schedule.async_stages))
    lines += [
        "} {async_pipe.stage = array<i64: " + ", ".join(map(str, schedule.stage)) + ">, "
        "async_pipe.order = array<i64: "
        + ", ".join(map(str, schedule.order))
        + ">"
        + (listed + ">" if schedule.async_stages else "")
        + (", " + options if options else "")
        + "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


def _statement(program: Program, number: int, statement: Assign) -> list[str]:
    lines: list[str] = []

    def element(access: Access, name: str) -> tuple[str, str]:
        if access.offset is None:
            length = 1 if access.buffer in program.local else LENGTH
            return "%zero", f"memref<{length}xi64>"
        if access.offset == 0:
            return "%i", f"memref<{LENGTH}xi64>"
        lines.append(f"%{name}_by = arith.constant {access.offset} : index")
        lines.append(f"%{name} = arith.addi %i, %{name}_by : index")
        return f"%{name}", f"memref<{LENGTH}xi64>"

    lines.append(f"%total{number}_0 = arith.constant {number + 1} : i64")
    for position, source in enumerate(statement.sources):
        tag = f"{number}_{position}"
        index, kind = element(source, f"at{tag}")
        lines += [
            f"%read{tag} = memref.load %{source.buffer}[{index}] : {kind}",
            f"%factor{tag} = arith.constant {3 + 2 * position} : i64",
            f"%scaled{tag} = arith.muli %read{tag}, %factor{tag} : i64",
            f"%total{number}_{position + 1} = arith.addi %total{tag}, %scaled{tag} : i64",
        ]
    index, kind = element(statement.target, f"to{number}")
    last = f"%total{number}_{len(statement.sources)}"
    lines.append(f"memref.store {last}, %{statement.target.buffer}[{index}] : {kind}")
    return lines


def text_with_caller(
    program: Program, schedule: Schedule, trip_counts: range, *, options: str = ""
) -> str:
    """`text` and a function `main` that calls it once for each trip count, each call with
    arrays of its own (so that one run of the machine covers all of them)."""
    names = [f"%{name}{trips}" for trips in trip_counts for name in program.arrays]
    lines = [
        text(program, schedule, options=options),
        f"func.func @main({', '.join(f'{name} : memref<{LENGTH}xi64>' for name in names)}) {{",
    ]
    kinds = "".join(f", memref<{LENGTH}xi64>" for _ in program.arrays)
    for trips in trip_counts:
        passed = "".join(f", %{name}{trips}" for name in program.arrays)
        lines += [
            f"%n{trips} = arith.constant {trips} : index",
            f"func.call @f(%n{trips}{passed}) : (index{kinds}) -> ()",
        ]
    return "\n".join([*lines, "return", "}"])
