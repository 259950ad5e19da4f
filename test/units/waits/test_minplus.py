"""The laws of the min-plus semiring, on random matrices.

Covers: waits/minplus.py
"""

import random

import pytest

from mlir_async_pipe.waits import minplus

SIZES = [1, 2, 3, 5, 8]


def random_matrix(size: int, seed: int, density: float = 0.6):
    """Sparse columns with costs up to 8, as of a loop that carries so many slots."""
    numbers = random.Random(seed)
    return {
        target: {
            source: numbers.randrange(9) for source in range(size) if numbers.random() < density
        }
        for target in range(size)
    }


def identity(size: int):
    return {slot: {slot: 0} for slot in range(size)}


def smallest(*states):
    return minplus.least(states)


@pytest.mark.parametrize("size", SIZES)
def test_product_is_associative(size):
    a, b, c = (random_matrix(size, seed) for seed in (1, 2, 3))
    left = minplus.product(minplus.product(a, b), c)
    assert left == minplus.product(a, minplus.product(b, c))


@pytest.mark.parametrize("size", SIZES)
def test_product_distributes_over_minimum(size):
    a, b, c = (random_matrix(size, seed) for seed in (4, 5, 6))
    both = {slot: smallest(b[slot], c[slot]) for slot in b}
    left, right = minplus.product(a, b), minplus.product(a, c)
    assert minplus.product(a, both) == {slot: smallest(left[slot], right[slot]) for slot in left}


@pytest.mark.parametrize("size", SIZES)
def test_identity_changes_nothing(size):
    a = random_matrix(size, 7)
    assert minplus.product(a, identity(size)) == a == minplus.product(identity(size), a)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("exponent", [1, 2, 3, 7, 12, 60])
def test_power_equals_the_repeated_product(size, exponent):
    a = random_matrix(size, 8, 0.5)
    product = identity(size)
    for _ in range(exponent):
        product = minplus.product(product, a)
    assert minplus.power(a, exponent) == product


@pytest.mark.parametrize("size", SIZES)
def test_iterations_one_by_one_end_where_the_power_does(size):
    a = random_matrix(size, 10, 0.5)
    after = state = {0: 0, size - 1: 2}
    for iterations in range(1, 40):
        after = minplus.once(a, after)
        assert minplus.once(minplus.power(a, iterations), state) == after


@pytest.mark.parametrize("most", [0, 1, 3, None])
@pytest.mark.parametrize("size", SIZES)
def test_any_number_of_turns_is_the_least_of_the_powers(size, most):
    a = random_matrix(size, 9, 0.4)
    total = state = {0: 2, size - 1: 0}
    after = state
    # No cost is negative: after as many turns as there are slots nothing gets less.
    for _ in range(size + 1 if most is None else most):
        after = minplus.once(a, after)
        total = smallest(total, after)
    assert minplus.iterate_up_to(minplus.targets(a), state, most) == total


def test_costs_saturate_below_never():
    assert minplus.power({0: {0: 3}}, 1 << 62) == {0: {0: minplus.CEILING}}


def test_two_tokens_that_swap_are_where_they_were_after_even_iterations():
    swap = {1: {2: 1}, 2: {1: 1}}
    state = {1: 0, 2: 5}
    assert minplus.once(minplus.power(swap, 10**9), state) == {1: 10**9, 2: 10**9 + 5}
    assert minplus.once(minplus.power(swap, 10**9 + 1), state) == {1: 10**9 + 6, 2: 10**9 + 1}


def test_a_shift_register_turns_a_billion_times():
    """Slots 1 <- 2 <- 3 <- 0 (fresh, one group an iteration)."""
    columns = {1: {2: 1}, 2: {3: 1}, 3: {0: 0}, 0: {0: 0}}
    after = minplus.power(columns, 10**9)
    assert minplus.once(after, {0: 0, 1: 9, 2: 9, 3: 9}) == {0: 0, 1: 2, 2: 1, 3: 0}
