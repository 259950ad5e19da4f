"""Products with 64-bit descriptors: types, swizzles and both major orders, against NumPy.

Covers: machine/dialects/warpgroup.py, vocabulary/products.py, test/helpers/descriptor_products.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.descriptor_products import LAYOUT, NUMPY, M, Operand, Product, descriptor, drawn
from mlir_async_pipe import machine
from mlir_async_pipe.session.diagnostics import MachineError

N = 64
FORMS = [
    ("f16", "f16", "f16"),
    ("f16", "f16", "f32"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    *((a, b, sums) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for sums in ("f16", "f32")),
    *((a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
]


def operands(width: int, a_by_k: bool = True, b_by_k: bool = True) -> tuple[Operand, Operand]:
    return Operand("a", width, 64, a_by_k), Operand("b", width, 64, b_by_k)


def random_values(product: Product) -> tuple[np.ndarray, np.ndarray]:
    """A (64 x k) and B (n x k) of a program."""
    numbers = np.random.default_rng(3)
    depth = len(product.a.offsets) * 32 // product.a.bytes
    shapes = (product.a.types, (M, depth)), (product.b.types, (product.n, depth))
    left, right = (drawn(numbers, types, shape) for types, shape in shapes)
    return left, right


def expected(product: Product, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sums in their type: of numbers that few bits hold, so that no sum is rounded."""
    start = product.before if product.first == "one" else 0
    sign = -1 if product.scale[0] != product.scale[1] else 1
    return (start + sign * (left @ right.T)).astype(NUMPY[product.sums])


def multiplied(product: Product, completion: str):
    """The run, its product put together from the registers, and NumPy's."""
    left, right = random_values(product)
    result, sums = product.run(left, right, completion)
    return result, sums, expected(product, left, right)


def check(product: Product, *completions: str) -> None:
    for completion in completions or machine.COMPLETIONS:
        result, sums, right = multiplied(product, completion)
        assert result.races == ()
        np.testing.assert_array_equal(sums, right)


@pytest.mark.parametrize("b_by_k", [True, False], ids=["B by k", "B by n"])
@pytest.mark.parametrize("a_by_k", [True, False], ids=["A by k", "A by m"])
@pytest.mark.parametrize("width", LAYOUT)
def test_every_swizzle_and_order(width, a_by_k, b_by_k):
    check(Product(*operands(width, a_by_k, b_by_k)))


@pytest.mark.parametrize("width", LAYOUT)
@pytest.mark.parametrize("a_types, b_types, sums", FORMS, ids="-".join)
def test_every_type_with_every_swizzle(a_types, b_types, sums, width):
    depth = 128 // (4 if a_types == "tf32" else 2 if a_types.endswith("f16") else 1)
    a = Operand("a", width, depth, True, a_types)
    b = Operand("b", width, depth, True, b_types, rows=24)
    check(Product(a, b, sums), "late")


@pytest.mark.parametrize("a_by_k, b_by_k", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("types, sums", [("bf16", "f32"), ("f16", "f16")])
def test_sixteen_bits_of_either_order(types, sums, a_by_k, b_by_k):
    a = Operand("a", 128, 64, a_by_k, types)
    check(Product(a, Operand("b", 64, 64, b_by_k, types, rows=32), sums), "late")


@pytest.mark.parametrize("scale", [("neg", "one"), ("one", "neg"), ("neg", "neg")])
@pytest.mark.parametrize("types, sums", [("f16", "f32"), ("f16", "f16"), ("e4m3", "f32")])
def test_operands_may_be_negated(types, sums, scale):
    depth = 64 if types == "f16" else 128
    a, b = (Operand(name, 128, depth, True, types) for name in "ab")
    check(Product(a, b, sums, scale), "late")


@pytest.mark.parametrize("sums, before", [("f32", 2.5), ("f16", 2.5), ("s32", 7)])
def test_scale_d_adds_to_what_the_registers_hold(sums, before):
    types = "s8" if sums == "s32" else "f16"
    a, b = (Operand(name, 64, 64, True, types) for name in "ab")
    product = Product(a, b, sums, first="one", before=before)
    check(product, "late")
    check(replace(product, first="zero"), "late")


def test_two_f16_sums_may_stand_in_an_i32():
    check(Product(*operands(128), sums="f16", register="i32"))


@pytest.mark.parametrize(
    "overflow, last", [(", <satfinite>", 2**31 - 1), (", <wrapped>", -(2**31) + 64 * 127 * 127 - 1)]
)
def test_integers_go_around_unless_they_saturate(overflow, last):
    a, b = (Operand(name, 64, 64, True, "s8") for name in "ab")
    product = Product(a, b, "s32", first="one", before=2**31 - 1, overflow=overflow)
    largest = np.full((M, 64), 127.0)
    _, sums = product.run(largest, largest, "eager")
    assert set(sums.flat) == {last}


def test_tf32_loses_the_bits_that_it_does_not_have():
    a, b = (Operand(name, 128, 32, True, "tf32") for name in "ab")
    left = np.full((M, 32), 1 + 2.0**-12)
    _, sums = Product(a, b).run(left, np.ones((N, 32)), "eager")
    assert set(sums.flat) == {32.0}


def test_f16_sums_are_rounded():
    a, b = (Operand(name, 128, 64, True) for name in "ab")
    product = Product(a, b, "f16", first="one", before=2048.0)
    left = np.zeros((M, 64))
    left[:, 0] = 1
    _, sums = product.run(left, left.copy(), "eager")
    assert set(sums.flat) == {2048.0}


def test_a_wrong_swizzle_multiplies_something_else():
    a, b = operands(128)
    b.bits = descriptor(64, 16, 8 * 128)
    _, product, right = multiplied(Product(a, b), "late")
    assert not np.array_equal(product, right)


@pytest.mark.parametrize("sums, nothing", [("f32", np.nan), ("f16", np.nan), ("s32", -1)])
def test_registers_hold_nothing_before_the_wait(sums, nothing):
    types = "s8" if sums == "s32" else "f16"
    a, b = (Operand(name, 64, 64, True, types) for name in "ab")
    result, product, _ = multiplied(Product(a, b, sums, wait="1"), "late")
    assert np.array_equal(product, np.full_like(product, nothing), equal_nan=sums != "s32")
    assert result.race_codes == {"unwaited-copy"}


def test_descriptors_that_name_no_memory_are_refused():
    a, b = operands(128)
    b.offsets[0] = 200000
    with pytest.raises(MachineError, match="names 0 places"):
        multiplied(Product(a, b), "eager")


def test_base_offsets_are_refused():
    a, b = operands(128)
    b.bits |= 1 << 49
    with pytest.raises(MachineError, match="base offset"):
        multiplied(Product(a, b), "eager")
