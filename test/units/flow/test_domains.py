"""Every domain of the solver is a semiring with a star: that is what makes its answers exact.

Covers: facts/flow/solver.py, waits/consumers.py, pipeliner/ask_checker/attach_tokens.py,
waits/simplify.py, waits/dynamic.py
"""

import random
from functools import reduce

import pytest

from mlir_async_pipe.pipeliner.ask_checker.attach_tokens import NOTHING, History, Known
from mlir_async_pipe.vocabulary.rows import CP_ASYNC
from mlir_async_pipe.waits.consumers import UNBOUNDED, LeastSum
from mlir_async_pipe.waits.dynamic import MADE, NEWEST, OPEN, Ageing, PossibleAges
from mlir_async_pipe.waits.simplify import COMMIT, FOREIGN, InFlight, KeptGroups, Transfer, known

AGES = PossibleAges({1, 2, 3}, CP_ASYNC, lambda op: 0, NEWEST, 5, lambda frame: {})
KEPT = KeptGroups(4, lambda item: item)
# A domain, and the paths of which all others are made.
DOMAINS = {
    "least sum": (LeastSum(lambda item: 0), [1, 2, 5]),
    "history": (History(CP_ASYNC, None), [Known(more=1), NOTHING]),
    "kept groups": (KEPT, [KEPT.over("kept"), KEPT.over("dropped"), KEPT.over("any")]),
    "possible ages": (
        AGES,
        [
            Ageing(NEWEST << 1, {1: {MADE: NEWEST}}),
            Ageing(NEWEST, {2: {MADE: OPEN}}),
            AGES.forward({1: 2, 2: 1}),
            AGES.forward({3: 1}),
        ],
    ),
}


@pytest.fixture(params=DOMAINS)
def drawn(request):
    """A domain, and paths of it."""
    domain, paths = DOMAINS[request.param]
    choose = random.Random(request.param)
    paths = [domain.unit, *paths]
    for _ in range(40):
        make = choose.choice((domain.then, domain.join))
        paths.append(make(choose.choice(paths), choose.choice(paths)))
    return domain, [choose.sample(paths, 3) for _ in range(60)]


def test_paths_that_meet_are_a_set(drawn):
    domain, triples = drawn
    join = domain.join
    for a, b, c in triples:
        assert join(a, b) == join(b, a) and join(a, a) == a == join(a, domain.never)
        assert join(join(a, b), c) == join(a, join(b, c))


def test_paths_one_after_the_other_compose(drawn):
    domain, triples = drawn
    then, join = domain.then, domain.join
    for a, b, c in triples:
        assert then(then(a, b), c) == then(a, then(b, c))
        assert then(a, domain.unit) == a == then(domain.unit, a)
        assert then(a, domain.never) == domain.never == then(domain.never, a)
        assert then(a, join(b, c)) == join(then(a, b), then(a, c))
        assert then(join(a, b), c) == join(then(a, c), then(b, c))


@pytest.mark.parametrize("times", (0, 1, 2, 5, 11))
def test_loops_are_paths_again_and_again(drawn, times):
    domain, triples = drawn
    for a, _, _ in triples:
        powers = [domain.unit]
        for _ in range(times):
            powers.append(domain.then(powers[-1], a))
        assert domain.power(a, times) == powers[-1]
        assert domain.star(a, times) == reduce(domain.join, powers)
        forever = domain.star(a)
        assert domain.join(forever, domain.star(a, times)) == forever
        assert domain.join(domain.unit, domain.then(forever, a)) == forever


def test_last_iteration_knows_what_all_before_it_know():
    latest = History(CP_ASYNC, None, latest=True)
    assert latest.star(Known(more=1), 3) == Known(more=3)
    assert latest.star(Known(more=1)) == Known()


def test_loop_that_takes_more_than_it_adds_has_no_least_sum():
    assert DOMAINS["least sum"][0].star(-1) == UNBOUNDED
    assert DOMAINS["least sum"][0].star(-1, 3) == -3


def test_bounds_in_flight_are_no_less_than_all_iterations():
    domain = InFlight(lambda item: COMMIT)
    wait = Transfer(cap=2)
    body = domain.then(COMMIT, wait)
    for start in (known(0), known(1), FOREIGN):
        passed = [domain.then(start, domain.power(body, times)).cap for times in range(8)]
        assert domain.then(start, domain.star(body)).cap == max(passed)


def test_window_of_kept_groups_counts_those_that_stay():
    path = reduce(KEPT.then, map(KEPT.over, ("kept", "dropped", "kept")), KEPT.nothing)
    assert path.last == (0, 1, 1, 2, 2)
    assert KEPT.then(KEPT.outside, KEPT.over("dropped")).last == (0, 0, 1, 2, 3)
