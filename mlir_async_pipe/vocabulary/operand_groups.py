"""Which operands of an op belong to which named group of its row.

A row names the ODS operand groups of its op in order: "*" after a name marks a group of any length,
"?" an optional one, and "+" before it one that not all bindings have:

    ("barrier", "bytes", "+multicast?", "predicate?")     3 groups, in newer bindings 4

`operandSegmentSizes` says how long each group of an op is, and by its own length which groups there
are; an op without it has no group marked "+", and at most one "*", which takes what the others leave.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.diagnostics import InputError

SIZES = "operandSegmentSizes"
# The op whose row is that of the intrinsic it calls.
CALL = "llvm.call_intrinsic"


class _HasOperands(Protocol):
    @property
    def operands(self) -> tuple[str, ...]: ...


def operand_groups(op: Any, row: _HasOperands) -> dict[str, range]:
    """The operand numbers of each named operand group of `row`, for this very op; a group that its
    bindings do not have is empty. Raises InputError (unknown-operands)."""
    # Those of a call of an intrinsic tell its bundles apart.
    if SIZES not in op.attributes or op.name == CALL:
        sizes = _sizes_of_groups(row.operands, len(op.operands))
    else:
        sizes = tuple(ir.DenseI32ArrayAttr(op.attributes[SIZES]))
    groups = _groups_of_sizes(row.operands, sizes)
    if groups is None:
        known = ", ".join(map(_plain, row.operands))
        raise InputError(
            f"'{op.name}' has {len(sizes)} groups of operands, which are not those that are known of "
            f"it ({known})",
            code="unknown-operands",
            at=op,
            advice="it comes from bindings of another version than this package knows",
        )
    return dict(groups)


def _plain(name: str) -> str:
    return name.strip("+*?")


@cache
def _sizes_of_groups(names: tuple[str, ...], total: int) -> tuple[int, ...]:
    """How many of `total` operands each named group takes."""
    names = _of_all_bindings(names)
    sizes = []
    spare = total - sum(1 for name in names if name[-1] not in "*?")
    for name in names:
        if name[-1] == "*":
            sizes.append(spare)
            spare = 0
        elif name[-1] == "?":
            sizes.append(min(1, spare))
            spare -= sizes[-1]
        else:
            sizes.append(1)
    return tuple(sizes)


def _of_all_bindings(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if not name.startswith("+"))


@cache
def _groups_of_sizes(names: tuple[str, ...], sizes: tuple[int, ...]) -> dict[str, range] | None:
    """The operand numbers of each named group, None where the op has other groups; the result is
    shared, so it must not change."""
    there = names if len(sizes) == len(names) else _of_all_bindings(names)
    if len(sizes) != len(there):
        return None
    groups: dict[str, range] = {_plain(name): range(0) for name in names}
    start = 0
    for name, size in zip(there, sizes, strict=True):
        groups[_plain(name)] = range(start, start + size)
        start += size
    return groups
