"""Kernels on mbarriers that upstream's convert-nvgpu-to-nvvm has made pointers of: members of the
descriptors of globals, steps from them, and descriptors of products by shifts. The checker says of
each what it says of the kernel before.

Covers: checker/phases/byte_places.py, checker/phases/path_numbers.py, checker/phases/amounts.py
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.nvvm_tensor_loops import CONVERSIONS, converted
from helpers.tensor_kernels import Ring
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_mutants import APART, EVERYWHERE, PRODUCT, TOGETHER, changed, one_by_one
from helpers.tensor_stores import PERSISTENT
from mlir_async_pipe import pipeline

LOOPS = {
    "loads": TensorLoop((Box(2, 32),), trips=5),
    "two mbarriers": TensorLoop((Box(2, 32), Box(4, 32, "none", 1)), trips=5, executions=2),
    "ldmatrix": TensorLoop((Box(32, 16), Box(8, 16)), reader="matrices", trips=5),
    "products": TensorLoop(
        (Box(64, 64, "swizzle_128b"), Box(64, 64, "swizzle_128b")), reader="products", trips=3
    ),
    "stores": PERSISTENT,
}
TOGETHER_RING = Ring(slots=3, ahead=2)
APART_RING = Ring(slots=2, ahead=1, specialised=True)
PRODUCT_RING = Ring(slots=3, ahead=2, in_flight=1, reader="products")
RINGS = {"together": TOGETHER_RING, "apart": APART_RING, "products": PRODUCT_RING}
MUTANTS = {
    f"{tag}, {name}": changed(ring, **changes)
    for tag, ring, tables in (
        ("together", TOGETHER_RING, (EVERYWHERE, TOGETHER)),
        ("apart", APART_RING, (APART,)),
        ("products", PRODUCT_RING, (PRODUCT,)),
    )
    for ring, name, changes in one_by_one((ring, tables))
}


def verdict(text: str) -> tuple[int, int, set[str]]:
    report = check_module(parse(text)).report
    (check,) = report.of("checks")
    return check.unsafe, check.unknown, {entry.code for entry in report.diagnostics}


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("roles", ["", "specialised"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_pipelined_loop_is_proven_when_it_is_converted(name, roles, conversion):
    module: Any = replace(LOOPS[name], roles=roles).module()
    pipeline(module, check="none")
    assert verdict(converted(module, conversion)) == (0, 0, set())


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_one_slot_is_proven_when_it_is_converted(name):
    assert verdict(converted(LOOPS[name].module(), CONVERSIONS[0])) == (0, 0, set())


@pytest.mark.parametrize("name", RINGS)
def test_a_ring_written_by_hand_is_proven_when_it_is_converted(name):
    assert verdict(converted(parse(RINGS[name].text()), CONVERSIONS[0])) == (0, 0, set())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_has_the_same_name_when_it_is_converted(name):
    text = MUTANTS[name].text()
    unsafe, unknown, codes = verdict(text)
    (check,) = check_module(parse(text)).report.of("checks")
    # After a fault that stops the kernel nothing is certain.
    assert unsafe and set(check.reasons) <= {"undecided-path"}
    found = verdict(converted(parse(text), CONVERSIONS[0]))
    if not name.startswith("products"):
        assert found == (unsafe, unknown, codes)
        return
    # A product becomes several ops, each of which may be told of.
    assert found[0] >= unsafe and found[1] == unknown and found[2] >= codes


def test_a_pointer_of_another_struct_is_not_followed():
    """Only what a cast has made of a memref is its descriptor."""
    text = converted(parse(TOGETHER_RING.text()), CONVERSIONS[0])
    mutant, times = re.subn(
        r"builtin.unrealized_conversion_cast %\w+ : memref<3xi64, 3> to", "llvm.mlir.poison :", text
    )
    assert times == 1
    unsafe, unknown, _ = verdict(mutant)
    assert (unsafe, bool(unknown)) == (0, True)
