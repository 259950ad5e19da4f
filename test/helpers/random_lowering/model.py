"""A kernel's inputs and what it has to write, in NumPy, from its Spec alone.

Values are small whole numbers, which all element types hold exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helpers.random_lowering.element_types import ELEMENTS, Element
from helpers.random_lowering.spec import MASKED, Source, Spec


@dataclass(frozen=True)
class Case:
    """`inputs` as they lie in memory, `output` before the launch, and `expected` after it."""

    inputs: tuple[np.ndarray, ...]
    output: np.ndarray
    expected: np.ndarray
    scratch: np.ndarray | None


def make_case(spec: Spec) -> Case:
    rng = np.random.default_rng(spec.seed)
    rows = spec.blocks * spec.outer * spec.trips
    low, high = (0, 2) if spec.element.bits < 8 else (-5, 6)
    values = [rng.integers(low, high, (rows, spec.columns)) for _ in range(spec.inputs)]
    inputs = tuple(
        _in_memory(value, spec.element, source, spec, rng)
        for value, source in zip(values, spec.sources, strict=True)
    )
    written = [
        _through_tile(value, spec, source)
        for value, source in zip(values, spec.sources, strict=True)
    ]
    result = _computed(written[0], spec)
    if spec.inputs == 2:
        result = spec.element.wrap(result + written[1]) if spec.element.bits >= 8 else (
            result ^ written[1]
        )  # fmt: skip
    kind = result_element(spec)
    if spec.carried:
        parts = result.reshape(spec.blocks, spec.outer, spec.trips, spec.columns)
        if spec.element.bits >= 8:
            result = kind.wrap(parts.sum(axis=2))
        else:
            result = np.bitwise_xor.reduce(parts, axis=2)
    expected = kind.to_memory(result.reshape(-1))
    scratch = None
    if spec.scratch:
        t = np.arange(spec.threads)
        one = spec.scratch_element.wrap((t[::-1] * 3 + 1) & scratch_mask(spec.scratch_element))
        scratch = spec.scratch_element.to_memory(np.tile(one, 2 * spec.blocks))
    return Case(inputs, np.zeros_like(expected), expected, scratch)


def scratch_mask(element: Element) -> int:
    return (1 << min(element.bits, 7)) - 1


def result_element(spec: Spec) -> Element:
    return ELEMENTS[spec.element.wide] if "widen" in spec.compute else spec.element


def _in_memory(
    value: np.ndarray, element: Element, source: Source, spec: Spec, rng: np.random.Generator
) -> np.ndarray:
    """Rows `stride` apart; what lies between them, and past the bound, is not zero.

    The memory ends with the last element that a right kernel may read.
    """
    rows, used = value.shape[0], source_columns(spec, source)
    size = source.offset + max(rows - 1, 0) * source.stride + (used if rows else 0)
    memory = element.to_memory(rng.integers(0, 2, max(size, 1)))
    for row in range(rows):
        start = source.offset + row * source.stride
        memory[start : start + used] = element.to_memory(value[row, :used])
    return memory


def source_columns(spec: Spec, source: Source) -> int:
    """How many columns an input has: a transfer's bound is the end of its row."""
    return spec.bound if source.copy == "transfer-edge" else spec.columns


def _through_tile(value: np.ndarray, spec: Spec, source: Source) -> np.ndarray:
    """What the threads read: chunks of the others, zeros past the bound."""
    element = spec.element
    column, kept = np.arange(spec.columns), True
    if source.copy in MASKED:
        kept = column < spec.bound
    elif source.copy == "constant-mask":
        kept = column % spec.width < constant_kept(spec)
    zeroed = np.where(kept, value, 0)
    chunks = element.wrap(zeroed).reshape(len(value), spec.copies, spec.threads, spec.width)
    t = np.arange(spec.threads)
    # Thread t copies its chunk to place t ^ swizzle.
    chunks = chunks[:, :, t ^ spec.swizzle]
    return chunks[:, :, partner(t, spec)].reshape(len(value), spec.columns)


def constant_kept(spec: Spec) -> int:
    """How many leading elements a constant mask keeps."""
    return 1 + spec.amount % spec.width


def partner(t: np.ndarray, spec: Spec) -> np.ndarray:
    match spec.partner:
        case "reverse":
            return spec.threads - 1 - t
        case "xor":
            return t ^ xor_amount(spec)
        case "rotate":
            return (t + spec.amount) % spec.threads
    return t


def xor_amount(spec: Spec) -> int:
    """Stays inside the block: a power of two of threads, or the lowest bits only."""
    power = spec.threads & -spec.threads
    return spec.amount % power


def _computed(value: np.ndarray, spec: Spec) -> np.ndarray:
    element = spec.element
    for step in spec.compute:
        match step:
            case "add":
                value = element.wrap(value + 3)
            case "subtract":
                value = element.wrap(value - 2)
            case "double":
                value = element.wrap(value * 2)
            case "twice":
                value = element.wrap(value + value)
            case "maximum":
                value = np.maximum(value, -1)
            case "xor":
                value = element.wrap(value ^ 1)
    return value
