"""Rows of PTX instructions for which NVVM has no op: each stands as inline assembly of that one instruction.

    llvm.inline_asm has_side_effects "multimem.red.relaxed.sys.global.add.f32 [$0], $1;", "l,f" %sum, %x
        row "ptx.multimem.red": an atomic access to 4 bytes at %sum, of the threads of the system

Operands come in the order of their numbers, each once; assembly of any other form has no row. A modifier that
nobody has looked at is another instruction. Source: PTX ISA, multimem, st.async, red.async, cp.reduce.async.bulk.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.vocabulary.memory_ops import whole
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.rows import (
    BULK_STORE,
    UNORDERED,
    AccessKind,
    AccessRule,
    MemoryOrder,
    Opaque,
    Phase,
    Row,
    Scope,
)

PREFIX = "ptx."
_ORDERS = frozenset("weak relaxed acquire release".split())
_SCOPES: dict[str, Scope] = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": "system"}
OPERATIONS = frozenset("add min max and or xor inc dec".split())
TYPE = re.compile(r"(?:b|u|s|f|bf)(\d+)(?:x(\d))?|(?:e4m3|e5m2)(x\d)?")
_ASSEMBLY = re.compile(r"([a-z_]+(?:\.[\w:]+)+) ([$\d\[\]{}, ]+);")


class Instruction(NamedTuple):
    """The row of an instruction, the rest of its name, how many of its operands are results, and the bytes that it
    moves to or from registers."""

    row: str
    parts: frozenset[str]
    results: int
    size: int


def instruction_of(op: Any) -> Instruction | None:
    """The one instruction that inline assembly is; None where it has no row here."""
    if op.name != INLINE_ASSEMBLY:
        return None
    text, constraints = (
        str(ir.StringAttr(op.attributes[name]).value) for name in ("asm_string", "constraints")
    )
    return read_instruction(text, constraints.count("="))


def known_instruction(op: Any) -> Instruction:
    """The same of an op that has one of these rows."""
    found = instruction_of(op)
    assert found is not None
    return found


@cache
def read_instruction(text: str, results: int) -> Instruction | None:
    """The same of its text."""
    found = _ASSEMBLY.fullmatch(text)
    if found is None:
        return None
    name, operands = found.groups()
    numbers = [int(number) for number in re.findall(r"\$(\d+)", operands)]
    family = next((one for one in _MODIFIERS if f"{name}.".startswith(f"{one}.")), None)
    if family is None or numbers != list(range(len(numbers))):
        return None
    parts = name.removeprefix(family).strip(".").split(".")
    types = [one for one in parts if TYPE.fullmatch(one)]
    vectors = [one for one in parts if one in ("v2", "v4", "v8")]
    known = _MODIFIERS[family] | {*types, *vectors}
    if not known.issuperset(parts) or len(types) != 1 or len(vectors) > 1:
        return None
    size = _bytes(types[0]) * (int(vectors[0][1:]) if vectors else 1)
    return Instruction(PREFIX + family, frozenset(parts), results, size)


def _bytes(kind: str) -> int:
    found = TYPE.fullmatch(kind)
    assert found is not None
    bits, count, packed = found.groups()
    return int(packed[1:]) if packed else int(bits) * int(count or 1) // 8 if bits else 1


def _moved(op: Any) -> tuple[int, ...]:
    return (known_instruction(op).size,)


def _order(op: Any) -> MemoryOrder:
    """multimem.ld_reduce.acquire.sys: strong, for the threads of its scope; a weak access orders nothing. Without a
    word reductions are relaxed for the system's threads, accesses weak."""
    found = known_instruction(op)
    named = next((part for part in found.parts if part in _ORDERS), "weak")
    if named == "weak" and not found.row.endswith(".red"):
        return UNORDERED
    scope: Scope = next((_SCOPES[part] for part in found.parts if part in _SCOPES), "system")
    return MemoryOrder(named == "acquire", named == "release", True, scope)


def _at(kind: AccessKind) -> AccessRule:
    return AccessRule(kind, "memory", "", _moved, takes_slot_index=False)


_ROWS = (
    # What each of several devices has at an address is read, and combined; or all of them are written.
    Row("multimem.ld_reduce", ("memory",), (_at("read"),), order=_order),
    Row("multimem.st", ("memory", "values*"), (_at("write"),), order=_order),
    Row("multimem.red", ("memory", "values*"), (_at("atomic"),), order=_order),
    # A reduction by the copy engine, without a tensor map.
    Row(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group",
        ("destination", "source", "bytes", "l2_cache_hint?"),
        (AccessRule("read", "source", "", whole), AccessRule("write", "destination", "", whole)),
        queue=BULK_STORE,
        asynchronous=lambda op: True,
        adds=True,
    ),
    # A store into workgroup memory, mostly that of another block, whose bytes an mbarrier there counts.
    Row(
        "st.async",
        ("destination", "values*", "barrier"),
        (AccessRule("write", "destination", "", _moved, takes_slot_index=False),),
        asynchronous=lambda op: True,
        completion="mbarrier",
        effects=(Phase("copy", generic=True),),
    ),
    Row(
        "red.async",
        adds=True,
        effects=(
            Opaque(
                "it combines asynchronously with shared memory of another block, and several may meet there",
                phases=True,
            ),
        ),
    ),
)
_MULTIMEM = _ORDERS | _SCOPES.keys() | {"global"}
# The modifiers that are known of each, beside types and how many elements there are.
_MODIFIERS = {
    "multimem.ld_reduce": _MULTIMEM | OPERATIONS | {"acc::f32", "acc::f16"},
    "multimem.st": _MULTIMEM,
    "multimem.red": _MULTIMEM | OPERATIONS,
    "cp.reduce.async.bulk.global.shared::cta.bulk_group": OPERATIONS | {"noftz", "L2::cache_hint"},
    "st.async": frozenset({"weak", "shared::cluster", "mbarrier::complete_tx::bytes"}),
    "red.async": OPERATIONS
    | {"relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes"},
}
PTX_ROWS = tuple(replace(row, op=PREFIX + row.op) for row in _ROWS)
