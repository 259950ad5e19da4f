"""The one table, and the one way to look up what it says of an op.

row_of(op)               the row of an op: `UNKNOWN` if nobody has looked at ops of its name
named_row(name)          the row of all ops of a name, where `by_op` and `whole` ask for no more
operand_groups(op, row)  which operands of an op belong to which named group of its row

Of the call of an intrinsic it is the row of what it calls: what is an attribute of an op is an operand
of the call. Overloaded intrinsics carry their types after the name (`….p1`).

A row names the ODS operand groups of its op in order: "*" after a name marks a group of any length,
"?" an optional one, and "+" before it one that not all bindings have:

    ("barrier", "bytes", "+multicast?", "predicate?")     3 groups, in newer bindings 4

`operandSegmentSizes` says how long each group of an op is, and by its own length which groups there
are; an op without it has no group marked "+", and at most one "*", which takes what the others leave.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.vocabulary.control_flow import callee_name
from mlir_async_pipe.vocabulary.rows import EVERYTHING, PhaseUse, Row, TensorUse

# The package fills it when it is imported.
ROWS: dict[str, Row] = {}
UNKNOWN = Row("", does="unknown", order=lambda op: EVERYTHING)

SIZES = "operandSegmentSizes"
# The op whose row is that of the intrinsic it calls.
CALL = "llvm.call_intrinsic"
# The ops that may call an intrinsic.
CALLS = frozenset({CALL, "llvm.call"})
_TARGETS = ("llvm.amdgcn.", "llvm.nvvm.")
# What follows the name of an overloaded intrinsic: pointers, integers, floats, vectors of them.
_TYPES = re.compile(r"(\.(v\d+)?(p\d+|i\d+|b?f\d+))+$")


def row_of(op: Any) -> Row:
    """The row of this op's kind, or that of barriers of some threads, if this one is."""
    row = named_row(op.name)
    if row.by_op is not None:
        row = row.by_op(op)
    return row if row.whole is None or row.whole(op) else row.of_some


@cache
def named_row(name: str) -> Row:
    """The row of all ops called `name`: their own, or that of the longest beginning that has one."""
    if name in ROWS:
        return ROWS[name]
    ends = (at for at in range(len(name) - 1, 0, -1) if name[at - 1] in "._")
    return next((ROWS[name[:at]] for at in ends if name[:at] in ROWS), UNKNOWN)


def use_of(op: Any) -> PhaseUse | None:
    """What an op does with mbarriers, None for all others."""
    return row_of(op).phase


def tensor_use(op: Any) -> TensorUse | None:
    """What an op does with tensor memory, None if it has nothing to do with it."""
    return row_of(op).tensor


def meets_cluster(op: Any) -> bool:
    """Whether an op is a part of the barrier at which all threads of a cluster of blocks meet."""
    meeting = row_of(op).meeting
    return meeting is not None and meeting.of == "cluster"


def intrinsic_name(op: Any) -> str:
    """The intrinsic that a call names, "" for other ops. Of calls by symbol those of a target count."""
    if op.name == CALL:
        return str(ir.StringAttr(op.attributes["intrin"]).value)
    name = callee_name(op) or "" if op.name == "llvm.call" else ""
    return name if name.startswith(_TARGETS) else ""


def row_name(op: Any) -> str:
    """The name of the row of an op: the intrinsic that it calls, if that has one, else its own. Of
    calls by symbol barriers and fences count: no queue is followed through them."""
    name = op.name
    if name not in CALLS:
        return name
    known = _known_intrinsic(intrinsic_name(op))
    followed = known is not None and (name == CALL or ROWS[known].queue is None)
    return known if known is not None and followed else str(name)


@cache
def _known_intrinsic(name: str) -> str | None:
    """The intrinsic with a row that a name, with its types, stands for."""
    plain = name if name in ROWS else _TYPES.sub("", name)
    return plain if plain in ROWS else None


def groups_of(op: Any) -> dict[str, range]:
    """`operand_groups` of an op that has a row."""
    return operand_groups(op, row_of(op))


def operand_groups(op: Any, row: Row) -> dict[str, range]:
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
