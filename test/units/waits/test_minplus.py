"""The laws of the min-plus semiring, on random matrices.

Covers: waits/minplus.py
"""

import numpy as np
import pytest

from mlir_async_pipe.waits import minplus

SIZES = [1, 2, 3, 5, 8]


def random_matrix(size: int, seed: int, density: float = 0.6):
    numbers = np.random.default_rng(seed)
    matrix = numbers.integers(0, 9, (size, size)).astype(np.int64)
    matrix[numbers.random((size, size)) > density] = minplus.FOREVER
    return matrix


def identity(size: int):
    matrix = np.full((size, size), minplus.FOREVER, dtype=np.int64)
    np.fill_diagonal(matrix, 0)
    return matrix


def columns_of(matrix):
    size = len(matrix)
    return {
        target: {
            source: int(matrix[source, target])
            for source in range(size)
            if matrix[source, target] < minplus.FOREVER
        }
        for target in range(size)
    }


def row_of(state, size: int):
    row = np.full((1, size), minplus.FOREVER, dtype=np.int64)
    for slot, cost in state.items():
        row[0, slot] = cost
    return row


def state_of(row):
    return {slot: int(cost) for slot, cost in enumerate(row[0]) if cost < minplus.FOREVER}


@pytest.mark.parametrize("size", SIZES)
def test_product_is_associative(size):
    a, b, c = (random_matrix(size, seed) for seed in (1, 2, 3))
    left = minplus.multiply(minplus.multiply(a, b), c)
    right = minplus.multiply(a, minplus.multiply(b, c))
    assert (left == right).all()


@pytest.mark.parametrize("size", SIZES)
def test_product_distributes_over_minimum(size):
    a, b, c = (random_matrix(size, seed) for seed in (4, 5, 6))
    left = minplus.multiply(a, np.minimum(b, c))
    right = np.minimum(minplus.multiply(a, b), minplus.multiply(a, c))
    assert (left == right).all()


@pytest.mark.parametrize("size", SIZES)
def test_identity_changes_nothing(size):
    a = random_matrix(size, 7)
    assert (minplus.multiply(a, identity(size)) == a).all()
    assert (minplus.multiply(identity(size), a) == a).all()


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 12])
def test_power_equals_the_repeated_product(exponent):
    a = random_matrix(4, 8)
    product = identity(4)
    for _ in range(exponent):
        product = minplus.multiply(product, a)
    assert (minplus.apply(identity(4), a, exponent) == product).all()


@pytest.mark.parametrize("most", [0, 1, 3, None])
@pytest.mark.parametrize("size", SIZES)
def test_any_number_of_turns_is_the_least_of_the_powers(size, most):
    a = random_matrix(size, 9, 0.4)
    state = {0: 2, size - 1: 0}
    total = row = row_of(state, size)
    # No cost is negative: after as many turns as there are slots nothing gets less.
    for _ in range(size + 1 if most is None else most):
        row = minplus.multiply(row, a)
        total = np.minimum(total, row)
    moves = minplus.targets(columns_of(a))
    assert minplus.iterate_up_to(moves, state, most) == state_of(total)


def test_costs_saturate_below_never():
    huge = np.array([[minplus.CEILING]], dtype=np.int64)
    assert minplus.multiply(huge, huge)[0, 0] == minplus.CEILING


@pytest.mark.parametrize("iterations", [0, 1, 5, 60, 10**9])
def test_sparse_turns_equal_the_dense_power(iterations):
    matrix = random_matrix(5, 10, 0.5)
    state = {0: 0, 3: 2}
    dense = minplus.apply(row_of(state, 5), matrix, iterations)
    assert minplus.iterate(columns_of(matrix), state, iterations) == state_of(dense)


def test_a_shift_register_turns_a_billion_times():
    """Slots 1 <- 2 <- 3 <- 0 (fresh, one group an iteration)."""
    columns = {1: {2: 1}, 2: {3: 1}, 3: {0: 0}, 0: {0: 0}}
    assert minplus.iterate(columns, {0: 0, 1: 9, 2: 9, 3: 9}, 10**9) == {0: 0, 1: 2, 2: 1, 3: 0}
