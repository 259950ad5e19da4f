"""Addresses of workgroup memory as numbers, and descriptors of products that are made of them.

%base + 16384 %slot + 8192 %warpgroup     the buffer's address, 32768, and one number a thread
… >> 4 & 0x3fff | layout                  the same in units of 16 bytes, and bits above them
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phases.thread_numbers import Amount, EachThread, threads_of

# An address in units of 16 bytes, as descriptors of products hold it.
UNIT_BYTES = 16
# Fewer bits than these of an address are not all of it.
ADDRESS_BITS = 18
# The kind of an atom that is one number for each thread.
EACH = "each"


def address_of(root: int, offset: int) -> Form:
    """The address of a byte of a buffer, as a number."""
    return Form(offset, frozenset({(Atom("address", root), 1)}))


def is_number(form: Form) -> bool:
    """Whether a form is one number, the same in all threads, and no address is in it."""
    return not any(atom.kind in ("address", "units", EACH) for atom, _ in form.terms)


def is_address(form: Form) -> bool:
    """Whether a form is an address, in bytes or units, plus a number, or one for each thread."""
    kinds = [atom.kind for atom, coefficient in form.terms if atom.kind == EACH or coefficient == 1]
    return len(kinds) == len(form.terms) == 1 + kinds.count(EACH) and any(
        kind in ("address", "units") for kind in kinds
    )


def address_parts(form: Form, mask: int | None = None) -> tuple[Atom, list[int]]:
    """The buffer of an address, and all numbers that threads add to it, those of a mask if one is
    given."""
    (atom,) = (atom for atom, _ in form.terms if atom.kind != EACH)
    numbers = np.asarray(form.constant, np.int64)
    for each, coefficient in form.terms:
        if each.kind == EACH:
            numbers = numbers + coefficient * np.frombuffer(each.key, np.int64)
    if mask is not None and numbers.ndim:
        numbers = numbers[list(threads_of(mask))]
    return atom, sorted({int(number) for number in numbers.reshape(-1)})


def beside_addresses(v: list[Amount]) -> list[Amount]:
    """Numbers of threads as forms, where all else is addresses; None of those elsewhere."""
    if not all(is_address(value) for value in v if isinstance(value, Form)):
        return [None]
    return [
        forms.of_atom(Atom(EACH, value.data)) if isinstance(value, EachThread) else value
        for value in v
    ]


def in_units(form: Form, shift: int, bits: int) -> Form | None:
    """An address in units of 16 bytes, as a shift of a number of `bits` bits by `shift` gives it; buffers
    that descriptors name begin at whole ones.

    %address >> 4        %address << 46 >> 50: no bit of an address is above the 18 that stay
    """
    left = shift - (UNIT_BYTES.bit_length() - 1)
    if left < 0 or (left and bits - left < ADDRESS_BITS):
        return None
    scale = 1 << left
    if form.constant % scale or any(factor % scale for _, factor in form.terms):
        return None
    scaled = frozenset((atom, factor // scale) for atom, factor in form.terms)
    form = Form(form.constant // scale, scaled)
    if not is_address(form):
        return None
    atom, numbers = address_parts(form)
    if atom.kind != "address" or any(number % UNIT_BYTES for number in numbers):
        return None
    terms = [(Atom("units", atom.key), 1)]
    for each, coefficient in form.terms:
        if each.kind == EACH:
            units = coefficient * np.frombuffer(each.key, np.int64) // UNIT_BYTES
            terms.append((Atom(EACH, units.tobytes()), 1))
    return Form(form.constant // UNIT_BYTES, frozenset(terms))
