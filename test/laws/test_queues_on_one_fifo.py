"""Counts of consumer_wait where two or three abstract queues share the FIFO of a chip.

The law: on random programs with commits of all queues in any order, branches and loops, the count
of a wait is the least number of younger groups of the FIFO over all executions, which a simulation of
the program lists. The machine runs the execution that attains it: with that count the consumer reads
what was copied under every completion, with one more it does not.

Covers: waits/consumers.py, machine/fifos.py, machine/dialects/async_ops.py
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from helpers.counted_text import run as run_pass
from helpers.machine_programs import run

PROGRAMS = 60
SLOTS = 64
MOST_DECISIONS = 6
# A loop of unknown length has as many iterations as groups are held, and one more.
TRIPS = range(6)
COMPLETIONS = ("eager", "late", "random:1", "random:2")


@dataclass
class Step:
    """One statement: "commit" or "take" of a queue; "if" of two bodies; "for" of one, `trips`
    times (None: as a decision says)."""

    kind: str
    queue: int = 0
    bodies: tuple[list[Step], ...] = ()
    trips: int | None = None
    number: int = 0


@dataclass
class Writer:
    """A random program over `queues` queues, which takes no group that some path did not commit."""

    pick: random.Random
    queues: int
    takes: int = 0
    decisions: int = 0

    def body(self, held: list[int], length: int, depth: int) -> list[Step]:
        """Statements; `held` are the groups of each queue that surely wait, and changes."""
        return [self.step(held, depth) for _ in range(length)]

    def step(self, held: list[int], depth: int) -> Step:
        kinds = ["commit", "commit", "take", "take"] + ["if", "for"] * (depth > 0)
        kind, queue = self.pick.choice(kinds), self.pick.randrange(self.queues)
        if kind == "take" and held[queue] > 0:
            held[queue] -= 1
            self.takes += 1
            return Step("take", queue, number=self.takes - 1)
        if kind == "if" and self.decisions < MOST_DECISIONS:
            self.decisions += 1
            sides = [list(held), list(held)]
            bodies = tuple(self.body(side, self.pick.randrange(3), depth - 1) for side in sides)
            held[:] = [min(both) for both in zip(*sides, strict=True)]
            return Step("if", bodies=bodies)
        if kind == "for" and self.decisions < MOST_DECISIONS:
            self.decisions += 1
            inside = list(held)
            body = self.body(inside, self.pick.randrange(1, 4), depth - 1)
            # An iteration leaves no less than it found.
            for each in range(self.queues):
                body += [Step("commit", each)] * max(0, held[each] - inside[each])
            trips = self.pick.choice((None, 1, 2, 3))
            if trips is not None:
                gain = [max(0, after - before) for after, before in zip(inside, held, strict=True)]
                held[:] = [before + trips * more for before, more in zip(held, gain, strict=True)]
            return Step("for", bodies=(body,), trips=trips)
        held[queue] += 1
        return Step("commit", queue)


@dataclass
class Execution:
    """One run: what each decision says, as it is asked for; younger groups at each take."""

    given: tuple[int, ...]
    asked: int = 0
    # What the first decision that is not given may be.
    choices: range = range(0)
    groups: int = 0
    waiting: dict[int, list[int]] = field(default_factory=dict)
    younger: list[tuple[int, int]] = field(default_factory=list)

    def decide(self, choices: range) -> int:
        self.asked += 1
        if self.asked == len(self.given) + 1:
            self.choices = choices
        return self.given[self.asked - 1] if self.asked <= len(self.given) else 0

    def over(self, steps: list[Step]) -> Execution:
        for step in steps:
            if step.kind == "commit":
                self.waiting.setdefault(step.queue, []).append(self.groups)
                self.groups += 1
            elif step.kind == "take":
                oldest = self.waiting[step.queue].pop(0)
                self.younger.append((step.number, self.groups - 1 - oldest))
            elif step.kind == "if":
                self.over(step.bodies[self.decide(range(2))])
            else:
                for _ in range(self.decide(TRIPS) if step.trips is None else step.trips):
                    self.over(step.bodies[0])
        return self


def executions(steps: list[Step]) -> list[Execution]:
    """Every run, as long as it takes at most `MOST_DECISIONS` decisions."""
    found: list[Execution] = []
    pending: list[tuple[int, ...]] = [()]
    while pending:
        given = pending.pop()
        done = Execution(given).over(steps)
        if done.asked <= len(given) or len(given) == MOST_DECISIONS:
            found.append(done)
        else:
            pending += [(*given, value) for value in done.choices]
    return found


def text_of(steps: list[Step], queues: int, judged: int = -1, count: int | None = None) -> str:
    """The program; only take number `judged` reads what was copied, into `%out`, and waits: with
    `count`."""
    numbers = itertools.count()
    lines: list[str] = []

    def next_of(cell: str) -> str:
        now, then = f"%v{next(numbers)}", f"%v{next(numbers)}"
        lines.append(f"{now} = memref.load {cell}[] : memref<index>")
        lines.append(f"{then} = arith.addi {now}, %c1 : index")
        lines.append(f"memref.store {then}, {cell}[] : memref<index>")
        return now

    def write(body: list[Step]) -> None:
        for step in body:
            q = step.queue
            if step.kind == "commit":
                at = next_of(f"%head{q}")
                value, token = f"%v{next(numbers)}", f"%v{next(numbers)}"
                lines.append('"async_pipe.scope"() ({')
                lines.append(f"{value} = memref.load %A[%c0] : memref<1xf32>")
                lines.append(f"memref.store {value}, %B{q}[{at}] : memref<{SLOTS}xf32, WG>")
                lines.append(
                    f'"async_pipe.yield"() : () -> ()\n}}) {{queue = {q} : i64}} : () -> ()'
                )
                lines.append(
                    f'{token} = "async_pipe.commit_queue"() {{queue = {q} : i64}} : () -> TOK'
                )
            elif step.kind == "take":
                left = (
                    ""
                    if count is None
                    else f", count = {count if step.number == judged else SLOTS}"
                )
                given = f"{left} : i64" if left else ""
                lines.append(
                    f'"async_pipe.consumer_wait"() {{queue = {q} : i64{given}}} : () -> ()'
                )
                at, value = next_of(f"%tail{q}"), f"%v{next(numbers)}"
                if step.number == judged:
                    lines.append(f"{value} = memref.load %B{q}[{at}] : memref<{SLOTS}xf32, WG>")
                    lines.append(f"memref.store {value}, %out[%c0] : memref<1xf32>")
            else:
                write_region(step)

    def write_region(step: Step) -> None:
        if step.kind == "for" and step.trips is not None:
            lines.append(f"%t{(n := next(numbers))} = arith.constant {step.trips} : index")
            bound = f"%t{n}"
        else:
            at, bound = next_of("%asked"), f"%v{next(numbers)}"
            lines.append(f"{bound} = memref.load %D[{at}] : memref<{SLOTS}xindex>")
        if step.kind == "for":
            lines.append(f"scf.for %i{next(numbers)} = %c0 to {bound} step %c1 {{")
            write(step.bodies[0])
        else:
            condition = f"%v{next(numbers)}"
            lines.append(f"{condition} = arith.cmpi eq, {bound}, %c0 : index")
            lines.append(f"scf.if {condition} {{")
            write(step.bodies[0])
            lines.append("} else {")
            write(step.bodies[1])
        lines.append("}")

    cells = ["%asked", *(f"%{end}{q}" for q in range(queues) for end in ("head", "tail"))]
    for cell in cells:
        lines.append(f"{cell} = memref.alloca() : memref<index>")
        lines.append(f"memref.store %c0, {cell}[] : memref<index>")
    lines += [f"%B{q} = memref.alloc() : memref<{SLOTS}xf32, WG>" for q in range(queues)]
    write(steps)
    body = "\n".join(lines)
    return f"""
    func.func @f(%A: memref<1xf32>, %D: memref<{SLOTS}xindex>, %out: memref<1xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      {body}
      "async_pipe.wait_queue"() {{queue = 0 : i64, count = 0 : i64}} : () -> ()
      return
    }}"""


def program(seed: int) -> tuple[list[Step], int]:
    pick = random.Random(seed)
    queues = pick.choice((2, 3))
    writer = Writer(pick, queues)
    steps = writer.body([0] * queues, pick.randrange(5, 12), 2)
    return steps, queues


def counts_of(text: str) -> list[int]:
    report, _ = run_pass(text.replace("WG", "3"), "chip=sm_80")
    return [record.count for record in report.of("waits")]


def races(text: str, execution: Execution, completion: str) -> bool:
    decided = np.zeros(SLOTS, np.int64)
    decided[: len(execution.given)] = execution.given
    copied, out = np.full(1, 5, np.float32), np.zeros(1, np.float32)
    done = run(text, copied, decided, out, target="nvvm:sm_80", completion=completion)
    return bool(done.races)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_counts_are_the_least_of_all_executions_and_one_more_races(seed):
    steps, queues = program(seed)
    runs = executions(steps)
    least: dict[int, tuple[int, Execution]] = {}
    for done in runs:
        for number, younger in done.younger:
            if younger < least.get(number, (SLOTS, done))[0]:
                least[number] = younger, done
    counts = counts_of(text_of(steps, queues))
    for number, (younger, execution) in least.items():
        assert counts[number] == younger
        for completion in COMPLETIONS:
            right = text_of(steps, queues, number, younger)
            assert not races(right, execution, completion)
        assert races(text_of(steps, queues, number, younger + 1), execution, "late")
