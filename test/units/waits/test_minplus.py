"""The laws of the min-plus semiring, on random matrices.

Covers: waits/algebra/minplus.py
"""

import numpy as np
import pytest

from mlir_async_pipe.waits.algebra import carried, minplus

SIZES = [1, 2, 3, 5, 8]


def random_matrix(size: int, seed: int, density: float = 0.6):
    numbers = np.random.default_rng(seed)
    matrix = numbers.integers(0, 9, (size, size)).astype(np.int64)
    matrix[numbers.random((size, size)) > density] = minplus.NEVER
    return matrix


@pytest.mark.parametrize("size", SIZES)
def test_product_is_associative(size):
    a, b, c = (random_matrix(size, seed) for seed in (1, 2, 3))
    left = minplus.multiply(minplus.multiply(a, b), c)
    right = minplus.multiply(a, minplus.multiply(b, c))
    assert (left == right).all()


@pytest.mark.parametrize("size", SIZES)
def test_product_distributes_over_minimum(size):
    a, b, c = (random_matrix(size, seed) for seed in (4, 5, 6))
    left = minplus.multiply(a, minplus.add(b, c))
    right = minplus.add(minplus.multiply(a, b), minplus.multiply(a, c))
    assert (left == right).all()


@pytest.mark.parametrize("size", SIZES)
def test_identity_changes_nothing(size):
    a = random_matrix(size, 7)
    assert (minplus.multiply(a, minplus.identity(size)) == a).all()
    assert (minplus.multiply(minplus.identity(size), a) == a).all()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 12])
def test_power_equals_the_repeated_product(exponent):
    a = random_matrix(4, 8)
    product = minplus.identity(4)
    for _ in range(exponent):
        product = minplus.multiply(product, a)
    assert (minplus.power(a, exponent) == product).all()


@pytest.mark.parametrize("size", SIZES)
def test_star_is_the_limit_of_the_sums_of_powers(size):
    a = random_matrix(size, 9, 0.4)
    total = minplus.identity(size)
    for exponent in range(1, size + 2):
        total = minplus.add(total, minplus.power(a, exponent))
    assert (minplus.star(a) == total).all()


def test_costs_saturate_below_never():
    huge = np.array([[minplus.CEILING]], dtype=np.int64)
    assert minplus.multiply(huge, huge)[0, 0] == minplus.CEILING


@pytest.mark.parametrize("iterations", [0, 1, 5, 60, 10**9])
def test_sparse_turns_equal_the_dense_power(iterations):
    matrix = random_matrix(5, 10, 0.5)
    columns = {
        target: {
            source: int(matrix[source, target])
            for source in range(5)
            if matrix[source, target] < minplus.NEVER
        }
        for target in range(5)
    }
    state = {0: 0, 3: 2}
    vector = np.full((1, 5), minplus.NEVER, dtype=np.int64)
    for slot, cost in state.items():
        vector[0, slot] = cost
    dense = minplus.multiply(vector, minplus.power(matrix, iterations))
    expected = {slot: int(dense[0, slot]) for slot in range(5) if dense[0, slot] < minplus.NEVER}
    assert carried.turn(columns, state, iterations) == expected


def test_a_shift_register_turns_a_billion_times():
    """Slots 1 <- 2 <- 3 <- 0 (fresh, one group an iteration)."""
    columns = {1: {2: 1}, 2: {3: 1}, 3: {0: 0}, 0: {0: 0}}
    assert carried.turn(columns, {0: 0, 1: 9, 2: 9, 3: 9}, 10**9) == {0: 0, 1: 2, 2: 1, 3: 0}
