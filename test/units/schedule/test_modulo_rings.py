"""Loops of tensor copies as problems over groups of warps: the interval is that of a simulation, where all comes in
one order, and that of a mixed-integer solver, where two groups share units.

Covers: pipeliner/schedule/modulo/rings.py
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.solver_problems import mixed_integer_interval
from mlir_async_pipe.facts.costs.cost_model import (
    ARITHMETIC,
    ARRIVAL,
    COPY,
    ISSUE,
    SPECIAL,
    TENSOR,
    TENSOR_COPY,
    WAIT,
    CostModel,
    UnitCost,
)
from mlir_async_pipe.pipeliner.schedule.modulo.rings import RingProblem, Step
from mlir_async_pipe.pipeliner.schedule.modulo.solve import bounds_of, is_kept, solve

ARRIVES, WAITS, COPIES, MEETS = 2, 3, 40, 2
MODEL = CostModel(
    barrier=MEETS,
    units={
        ARRIVAL: UnitCost(ISSUE, 1, ARRIVES),
        WAIT: UnitCost(ISSUE, 1, WAITS),
        TENSOR_COPY: UnitCost(COPY, 1, COPIES),
    },
)


@dataclass(frozen=True)
class Ring:
    """A phase, products that take so many cycles of the tensor cores, what is computed beside them, the wait that leaves
    those of p iterations, and what is computed after it; d tiles are copied ahead, before all else or after it."""

    asked: str
    issued: int
    products: int
    beside: int
    after: int
    ahead: int
    in_flight: int
    copies_first: bool

    @property
    def versions(self) -> int:
        if self.asked != "together":
            return max(self.ahead, self.in_flight) + 1
        return self.ahead + self.in_flight + self.copies_first

    def problem(self, *units: str) -> Any:
        """What is computed holds `units`, beside the warps."""

        def compute(cycles: int) -> Step:
            return Step("compute", 0, cycles, dict.fromkeys(units, cycles))

        steps = [
            Step("phase", 0, WAITS, {}),
            Step("products", 0, self.issued, {TENSOR: self.products}),
            compute(self.beside),
            Step("done", 0, 1, {}),
            compute(self.after),
        ]
        return problem(steps, self, self.versions, self.in_flight, 0)


def problem(
    steps: list[Step],
    ring: Any,
    versions: int,
    in_flight: int,
    late: int,
    threads: dict[str, list[Step]] | None = None,
) -> Any:
    """That of a group that runs these steps on so many slots; of a warp of products and of these `threads`, if there are any."""
    plan = SimpleNamespace(
        asked=ring.asked,
        roles=None if ring.asked == "together" else SimpleNamespace(products=None),
        products=SimpleNamespace(completions=() if threads is None else (threads,)),
        transactions=[SimpleNamespace(copies=())],
        versions=versions,
        ahead=ring.ahead,
        in_flight=in_flight,
        late=late,
        held=in_flight + late,
        copies_first=ring.copies_first,
        after_barrier=False,
    )
    text = SimpleNamespace(steps=steps, model=MODEL, wait=MODEL.units[WAIT], width=1)
    return RingProblem(plan, text, threads or {}).problem()  # type: ignore[arg-type]


def drawn(seed: int, asked: str, largest: int = 30) -> Ring:
    draw = random.Random(seed)
    first = asked == "together" and draw.random() < 0.5
    in_flight = 0 if first else draw.randint(0, 2)
    issued = draw.randint(1, 6)
    # The tensor cores are busy for as long as products are issued, or longer.
    return Ring(
        asked,
        issued,
        issued + draw.randint(0, largest),
        draw.randint(1, largest),
        draw.randint(1, largest),
        draw.randint(1, 4),
        in_flight,
        first,
    )


ITERATIONS = 240


def simulated(ring: Ring) -> float:
    """Cycles between iterations in the steady state, iteration after iteration as the warps run them."""
    groups = 2 if ring.asked == "alternating" else 1
    now = [0.0] * groups
    arrived: dict[int, float] = {}
    over: dict[tuple[int, int], float] = defaultdict(float)
    returned: dict[int, float] = defaultdict(float)
    tensor, turn, producer, marks = 0.0, 0.0, 0.0, []

    def copy(tile: int, at: float) -> float:
        arrived[tile] = at + COPIES
        return at + 1

    if ring.asked == "together":
        for tile in range(ring.ahead):
            copy(tile, 0)
    for i in range(ITERATIONS):
        if ring.asked != "together":
            free = returned[i - ring.versions]
            producer = copy(i, max(producer, free) + WAITS)
        for g in range(groups):
            t = max(now[g], arrived[i]) + WAITS
            if ring.copies_first:
                t = copy(i + ring.ahead, t + MEETS)
            if groups > 1:
                t = max(t, turn) + MEETS
            tensor = max(tensor, t) + ring.products
            over[g, i] = tensor
            t += ring.issued
            if groups > 1:
                t += 1
                turn = t
            t = max(t + ring.beside, over[g, i - ring.in_flight]) + 1 + ring.after
            if ring.asked != "together":
                t += 1
                tile = i - ring.in_flight
                returned[tile] = max(returned[tile], t + ARRIVES)
            elif not ring.copies_first:
                t = copy(i + ring.ahead, t + MEETS)
            now[g] = t
        marks.append(now[0])
    half = ITERATIONS // 2
    return (marks[-1] - marks[-1 - half]) / half


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("asked", ["together", "specialised", "alternating"])
def test_the_interval_is_that_of_warps_that_run_on(asked: str, seed: int) -> None:
    """Nothing but the tensor cores and the copies is shared, and these come in one order: the smallest interval is that
    of the steady state, in whole cycles."""
    ring = drawn(seed, asked)
    found = solve(problem := ring.problem())
    assert found is not None and found.interval_proven
    assert is_kept(problem, found.begins, found.interval)
    assert found.interval - 1 < simulated(ring) + 0.5 and simulated(ring) <= found.interval


@pytest.mark.parametrize("seed", range(10))
def test_two_groups_share_units_as_a_mixed_integer_solver_finds(seed: int) -> None:
    pytest.importorskip("highspy", reason="the test extra has it")
    problem = drawn(seed, "alternating", 10).problem(SPECIAL, ARITHMETIC)
    found = solve(problem)
    assert found is not None and found.interval_proven
    assert is_kept(problem, found.begins, found.interval)
    assert (
        mixed_integer_interval(problem, -int(-bounds_of(problem)[0].cycles // 1)) == found.interval
    )


@dataclass(frozen=True)
class Staged:
    """Scores, and the output an iteration later beside the softmax of the next one; `scale` waits for both."""

    asked: str
    scores: tuple[int, int]
    output: tuple[int, int]
    softmax: int
    scale: int
    ahead: int
    copies_first: bool = True

    @property
    def versions(self) -> int:
        return self.ahead + 2 if self.asked == "together" else max(self.ahead, 1) + 1

    def problem(self) -> Any:
        steps = [
            Step("phase", 0, WAITS, {}),
            Step("products", 0, self.scores[0], {TENSOR: self.scores[1]}),
            Step("products", 1, self.output[0], {TENSOR: self.output[1]}, 1),
            Step("done", 0, 1, {}),
            Step("compute", 0, self.softmax, {}),
            Step("done", 1, 1, {}, 1),
            Step("compute", 0, self.scale, {}),
        ]
        return problem(steps, self, self.versions, 0, 1)

    def simulated(self) -> float:
        """Cycles between iterations in the steady state."""
        groups = 2 if self.asked == "alternating" else 1
        now, marks = [0.0] * groups, []
        arrived: dict[int, float] = {}
        returned: dict[int, float] = defaultdict(float)
        tensor = turn = producer = 0.0
        for tile in range(self.ahead if self.asked == "together" else 0):
            arrived[tile] = COPIES
        for i in range(ITERATIONS):
            if self.asked != "together":
                begin = max(producer, returned[i - self.versions]) + WAITS
                arrived[i], producer = begin + COPIES, begin + 1
            for g in range(groups):
                t = max(now[g], arrived[i]) + WAITS
                if self.asked == "together":
                    t += MEETS
                    arrived[i + self.ahead] = t + COPIES
                    t += 1
                if groups > 1:
                    t = max(t, turn) + MEETS
                tensor = scored = max(tensor, t) + self.scores[1]
                t += self.scores[0]
                if i:
                    tensor = max(tensor, t) + self.output[1]
                    t += self.output[0]
                if groups > 1:
                    t += 1
                    turn = t
                t = max(t, scored) + 1 + self.softmax
                t = max(t, tensor) + 1 if i else t
                t += self.scale
                if self.asked != "together":
                    t += 1
                    returned[i - 1] = max(returned[i - 1], t + ARRIVES)
                now[g] = t
            marks.append(now[0])
        half = ITERATIONS // 2
        return (marks[-1] - marks[-1 - half]) / half


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("asked", ["together", "specialised", "alternating"])
def test_products_of_a_later_stage_run_beside_the_next_iteration(asked: str, seed: int) -> None:
    draw = random.Random(seed)
    issued = [draw.randint(1, 6) for _ in range(2)]
    scores, output = ((n, n + draw.randint(0, 30)) for n in issued)
    ring = Staged(
        asked, scores, output, draw.randint(1, 30), draw.randint(1, 30), draw.randint(1, 4)
    )
    found = solve(asked_for := ring.problem())
    assert found is not None and found.interval_proven
    assert is_kept(asked_for, found.begins, found.interval)
    assert found.interval - 1 < ring.simulated() + 0.5 and ring.simulated() <= found.interval


@dataclass(frozen=True)
class Parted:
    """Products whose sums threads load, products that threads have stored something for, the cycles of what they compute in
    between, and those of the tensor cores; a warp of its own issues the products."""

    issued: tuple[int, int]
    products: tuple[int, int]
    between: int
    ahead: int
    asked: str = "specialised"
    copies_first: bool = False

    @property
    def versions(self) -> int:
        return self.ahead + 1

    def problem(self) -> Any:
        first, second = (
            Step("products", n, self.issued[n], {TENSOR: self.products[n]}) for n in (0, 1)
        )
        steps = [
            *(Step("phase", 0, WAITS, {}), first, Step("done", 0, WAITS, {})),
            *(Step("compute", 0, self.between, {}), Step("arrive", 0, 1, {})),
            *(Step("ready", 0, WAITS, {}), second, Step("done", 1, WAITS, {})),
        ]
        return problem(steps, self, self.versions, 0, 0, {"the threads": steps})

    def simulated(self) -> float:
        """Cycles between iterations in the steady state, as both groups run them."""
        tensor = warp = threads = producer = 0.0
        over: list[float] = []
        for i in range(ITERATIONS):
            producer = max(producer, over[i - self.versions] if i >= self.versions else 0) + WAITS
            arrived, producer = producer + COPIES, producer + 1
            warp = max(warp, arrived) + WAITS
            tensor = max(tensor, warp) + self.products[0]
            warp += self.issued[0]
            threads = max(threads, tensor + ARRIVES) + WAITS + self.between
            warp = max(warp, threads + 1 + ARRIVES) + WAITS
            tensor = max(tensor, warp) + self.products[1]
            warp += self.issued[1]
            threads = max(threads + 1, tensor + ARRIVES) + WAITS
            over.append(tensor + ARRIVES)
        half = ITERATIONS // 2
        return (over[-1] - over[-1 - half]) / half


@pytest.mark.parametrize("seed", range(40))
def test_threads_and_a_warp_of_products_wait_for_each_other(seed: int) -> None:
    draw = random.Random(seed)
    issued = draw.randint(1, 6), draw.randint(1, 6)
    longer = issued[0] + draw.randint(0, 60), issued[1] + draw.randint(0, 60)
    parted = Parted(issued, longer, draw.randint(1, 90), draw.randint(1, 3))
    found = solve(problem := parted.problem())
    assert found is not None and found.interval_proven
    assert is_kept(problem, found.begins, found.interval)
    assert found.interval - 1 < parted.simulated() + 0.5 and parted.simulated() <= found.interval


@dataclass(frozen=True)
class Grouped:
    """A loop of two groups of threads, each between two products of its own, which a warp of theirs issues: the first of
    both groups, then the second of each when the group has told."""

    issued: tuple[int, ...]
    products: tuple[int, ...]
    between: tuple[int, int]
    ahead: int
    asked: str = "grouped"
    copies_first: bool = False

    def problem(self) -> Any:
        issues = [Step("products", n, self.issued[n], {TENSOR: self.products[n]}) for n in range(4)]
        ready = [Step("ready", n, WAITS, {}) for n in (0, 1)]
        steps = [Step("phase", 0, WAITS, {}), *issues[:2], ready[0], issues[2], ready[1], issues[3]]
        threads = {}
        for n in (0, 1):
            before, after = (Step("done", number, WAITS, {}) for number in (n, 2 + n))
            work = [Step("compute", 0, self.between[n], {}), Step("arrive", n, 1, {})]
            threads[f"group {n}"] = [before, *work, after]
        everything = [*steps, *(step for own in threads.values() for step in own)]
        return problem(everything, self, self.ahead + 1, 0, 0, threads)

    def simulated(self) -> float:
        """Cycles between iterations in the steady state, as all groups run them."""
        tensor = warp = producer = 0.0
        threads, over = [0.0, 0.0], list[float]()
        for i in range(ITERATIONS):
            free = over[i - self.ahead - 1] if i > self.ahead else 0
            producer = max(producer, free) + WAITS
            arrived, producer = producer + COPIES, producer + 1
            warp = max(warp, arrived) + WAITS
            for n in range(4):
                if n > 1:
                    warp = max(warp, threads[n - 2] + ARRIVES) + WAITS
                tensor = max(tensor, warp) + self.products[n]
                warp += self.issued[n]
                own = n % 2
                threads[own] = max(threads[own], tensor + ARRIVES) + WAITS
                if n < 2:
                    threads[own] += self.between[own] + 1
            over.append(tensor + ARRIVES)
        half = ITERATIONS // 2
        return (over[-1] - over[-1 - half]) / half


@pytest.mark.parametrize("seed", range(40))
def test_groups_of_threads_wait_for_their_products_alone(seed: int) -> None:
    draw = random.Random(seed)
    issued = tuple(draw.randint(1, 6) for _ in range(4))
    longer = tuple(cycles + draw.randint(0, 60) for cycles in issued)
    between = draw.randint(1, 90), draw.randint(1, 90)
    grouped = Grouped(issued, longer, between, draw.randint(1, 3))
    found = solve(problem := grouped.problem())
    assert found is not None and found.interval_proven
    assert is_kept(problem, found.begins, found.interval)
    assert found.interval - 1 < grouped.simulated() + 0.5 and grouped.simulated() <= found.interval
