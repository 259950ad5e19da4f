"""Integer and bitwise instructions. Arithmetic wraps at the type's width, as in PTX."""

from __future__ import annotations

import numpy as np

from helpers.ptx_machine.faults import unknown
from helpers.ptx_machine.registers import SIGNED, UNSIGNED, Operands, Step, type_of
from helpers.ptx_machine.syntax import BITS, Instruction


def _binary(compute):
    def make(ops: Operands, op: Instruction) -> Step:
        kind = type_of(op.parts)
        put, a, b = (
            ops.put(op.operands[0]),
            ops.integers(op.operands[1], kind),
            ops.integers(op.operands[2], kind),
        )
        return lambda machine, mask: put(machine, compute(a(machine), b(machine)), mask)

    return make


def _unary(compute):
    def make(ops: Operands, op: Instruction) -> Step:
        put, a = ops.put(op.operands[0]), ops.integers(op.operands[1], type_of(op.parts))
        return lambda machine, mask: put(machine, compute(a(machine)), mask)

    return make


def _wide_type(kind: str) -> type:
    table = SIGNED if kind[0] == "s" else UNSIGNED
    return table[2 * BITS[kind]]


def _mul(ops: Operands, op: Instruction) -> Step:
    """mul.lo, mul.hi, mul.wide; with a third operand mad."""
    kind = type_of(op.parts)
    bits = BITS[kind]
    put, a, b = (
        ops.put(op.operands[0]),
        ops.integers(op.operands[1], kind),
        ops.integers(op.operands[2], kind),
    )
    wide = "wide" in op.parts
    added = None
    if op.parts[0] == "mad":
        added = ops.get(op.operands[3], 2 * bits if wide else bits)

    def product(machine):
        x, y = a(machine), b(machine)
        if wide:
            return x.astype(_wide_type(kind)) * y.astype(_wide_type(kind))
        if "lo" in op.parts:
            return x * y
        if "hi" in op.parts and bits < 64:
            high = (x.astype(_wide_type(kind)) * y.astype(_wide_type(kind))) >> bits
            return high.astype(x.dtype)
        if "hi" in op.parts:
            return _high_64(x, y)
        raise unknown(op.text)

    def step(machine, mask):
        value = product(machine)
        if added is not None:
            value = value.view(UNSIGNED[8 * value.dtype.itemsize]) + added(machine)
        put(machine, value, mask)

    product_is_known = wide or "lo" in op.parts or "hi" in op.parts
    if not product_is_known:
        raise unknown(op.text)
    return step


def _high_64(x, y):
    x, y = np.broadcast_arrays(x, y)
    exact = [(int(p) * int(q)) >> 64 for p, q in zip(x, y, strict=True)]
    return np.array([value & (2**64 - 1) for value in exact], np.uint64)


def _divide(x, y):
    """Towards zero; by zero gives all ones, as NVIDIA's chips do (PTX leaves it open)."""
    zero = y == 0
    safe = np.where(zero, y.dtype.type(1), y)
    if x.dtype.kind == "u":
        quotient = x // safe
    else:
        quotient = x // safe
        quotient += ((x % safe) != 0) & ((x < 0) != (safe < 0))
    return np.where(zero, y.dtype.type(-1 if y.dtype.kind == "i" else ~y.dtype.type(0)), quotient)


def _remainder(x, y):
    return x - _divide(x, y) * y


def _amount(ops: Operands, operand, bits: int):
    """Shift amounts are 32 bits wide and clamped to the width."""
    get = ops.get(operand, 32)
    return lambda machine: np.minimum(get(machine), np.uint32(bits))


def _shift(left: bool):
    def make(ops: Operands, op: Instruction) -> Step:
        kind = type_of(op.parts)
        bits = BITS[kind]
        signed = kind[0] == "s"
        put, a = ops.put(op.operands[0]), ops.integers(op.operands[1], kind)
        by = _amount(ops, op.operands[2], bits)

        def step(machine, mask):
            value, amount = a(machine), by(machine)
            whole = amount == bits
            kept = np.where(whole, 0, amount).astype(value.dtype)
            if left:
                moved = np.where(whole, value.dtype.type(0), value << kept)
            elif signed:
                moved = np.where(whole, value >> value.dtype.type(bits - 1), value >> kept)
            else:
                moved = np.where(whole, value.dtype.type(0), value >> kept)
            put(machine, moved, mask)

        return step

    return make


def _funnel(ops: Operands, op: Instruction) -> Step:
    """shf.l.wrap.b32 d, low, high, amount."""
    put = ops.put(op.operands[0])
    low, high, by = (ops.get(operand, 32) for operand in op.operands[1:])
    wrap = "wrap" in op.parts

    def step(machine, mask):
        amount = by(machine) & np.uint32(31) if wrap else np.minimum(by(machine), np.uint32(32))
        amount = amount.astype(np.uint64)
        both = (high(machine).astype(np.uint64) << np.uint64(32)) | low(machine)
        moved = (both << amount) >> np.uint64(32) if "l" in op.parts else both >> amount
        put(machine, moved.astype(np.uint32), mask)

    return step


def _extract(ops: Operands, op: Instruction) -> Step:
    """bfe.{u,s}{32,64} d, a, position, length."""
    kind = type_of(op.parts)
    bits = BITS[kind]
    put, a = ops.put(op.operands[0]), ops.get(op.operands[1], bits)
    position, length = ops.get(op.operands[2], 32), ops.get(op.operands[3], 32)

    def step(machine, mask):
        word = UNSIGNED[bits]
        at = (position(machine) & np.uint32(255)).astype(word)
        size = (length(machine) & np.uint32(255)).astype(word)
        ones = _ones(size, bits)
        value = np.where(at < bits, a(machine) >> np.minimum(at, word(bits - 1)), word(0)) & ones
        if kind[0] == "s":
            last = np.minimum(at + size - word(1), word(bits - 1))
            sign = (a(machine) >> last) & word(1)
            value = np.where((sign == 1) & (size > 0), value | ~ones, value)
        put(machine, value, mask)

    return step


def _ones(size, bits: int):
    word = UNSIGNED[bits]
    part = (word(1) << np.minimum(size, word(bits - 1))) - word(1)
    return np.where(size >= bits, ~word(0), part)


def _insert(ops: Operands, op: Instruction) -> Step:
    """bfi.b32 d, field, base, position, length."""
    bits = BITS[type_of(op.parts)]
    put = ops.put(op.operands[0])
    a, b = ops.get(op.operands[1], bits), ops.get(op.operands[2], bits)
    position, length = ops.get(op.operands[3], 32), ops.get(op.operands[4], 32)

    def step(machine, mask):
        word = UNSIGNED[bits]
        at = (position(machine) & np.uint32(255)).astype(word)
        ones = _ones((length(machine) & np.uint32(255)).astype(word), bits)
        moved = np.minimum(at, word(bits - 1))
        where = np.where(at < bits, ones << moved, word(0))
        put(machine, (b(machine) & ~where) | ((a(machine) << moved) & where), mask)

    return step


def _permute(ops: Operands, op: Instruction) -> Step:
    """prmt.b32 d, a, b, selector: a byte for each nibble, bit 3 spreads the sign."""
    put = ops.put(op.operands[0])
    a, b, select = (ops.get(operand, 32) for operand in op.operands[1:])
    if op.parts[-1] != "b32":
        raise unknown(op.text)

    def step(machine, mask):
        both = (b(machine).astype(np.uint64) << np.uint64(32)) | a(machine)
        chosen = select(machine).astype(np.uint64)
        result = np.uint64(0)
        for position in range(4):
            nibble = (chosen >> np.uint64(4 * position)) & np.uint64(15)
            byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
            spread = np.where(byte >> np.uint64(7), np.uint64(255), np.uint64(0))
            byte = np.where(nibble >> np.uint64(3), spread, byte)
            result = result | (byte << np.uint64(8 * position))
        put(machine, np.asarray(result).astype(np.uint32), mask)

    return step


def _lop3(ops: Operands, op: Instruction) -> Step:
    put = ops.put(op.operands[0])
    inputs = [ops.get(operand, 32) for operand in op.operands[1:4]]
    table = op.operands[4].value

    def step(machine, mask):
        a, b, c = (get(machine) for get in inputs)
        result = np.uint32(0)
        for row in range(8):
            if table >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                z = c if row & 1 else ~c
                result = result | (x & y & z)
        put(machine, np.asarray(result), mask)

    return step


def _popc(value):
    return np.bitwise_count(value).astype(np.uint32)


def _clz(value):
    bits = value.dtype.itemsize * 8
    found = np.full(value.shape, bits, np.uint32)
    for bit in range(bits):
        found[(value >> value.dtype.type(bit)) & value.dtype.type(1) == 1] = bits - 1 - bit
    return found


def _reverse(value):
    bits = value.dtype.itemsize * 8
    result = np.zeros_like(value)
    one = value.dtype.type(1)
    for bit in range(bits):
        result |= ((value >> value.dtype.type(bit)) & one) << value.dtype.type(bits - 1 - bit)
    return result


def _not(value):
    return ~value


def _neg(value):
    return (~value.view(UNSIGNED[8 * value.dtype.itemsize])) + value.view(
        UNSIGNED[8 * value.dtype.itemsize]
    ).dtype.type(1)


def _abs(value):
    return np.where(value < 0, _neg(value).view(value.dtype), value)


MAKERS = {
    "add": _binary(lambda x, y: x + y),
    "sub": _binary(lambda x, y: x - y),
    "mul": _mul,
    "mad": _mul,
    "div": _binary(_divide),
    "rem": _binary(_remainder),
    "min": _binary(np.minimum),
    "max": _binary(np.maximum),
    "abs": _unary(_abs),
    "neg": _unary(_neg),
    "not": _unary(_not),
    "and": _binary(lambda x, y: x & y),
    "or": _binary(lambda x, y: x | y),
    "xor": _binary(lambda x, y: x ^ y),
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "shf": _funnel,
    "bfe": _extract,
    "bfi": _insert,
    "prmt": _permute,
    "lop3": _lop3,
    "popc": _unary(_popc),
    "clz": _unary(_clz),
    "brev": _unary(_reverse),
}
