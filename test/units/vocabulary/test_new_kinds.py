"""What a row says that the code does not know is no reason to prove anything: an effect of a new kind, an operator with two results.

Covers: vocabulary/rows.py, facts/values/domains.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from helpers.machine_programs import parse
from mlir_async_pipe.bindings.raw_ops import walk_named
from mlir_async_pipe.facts.values.domains import typed
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.rows import AccessRule, Opaque, Row


@dataclass(frozen=True)
class Latch:
    opaque: ClassVar[Opaque] = Opaque("signs a latch")


@pytest.mark.parametrize("accesses", [(), (AccessRule("read", "memory", "indices", None),)])
def test_an_effect_of_a_new_kind_is_opaque(accesses: tuple[AccessRule, ...]) -> None:
    row = Row("demo.sign", ("memory", "*indices"), accesses, effects=(Latch(),))  # type: ignore[arg-type]
    assert row.opaque == Latch.opaque and not row.known


def test_an_operator_with_two_results_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row would say of both that they are the product."""
    monkeypatch.setitem(OPERATORS, "arith.mulsi_extended", OPERATORS["arith.muli"])
    module = parse(
        "func.func @f(%a: i32) { %low, %high = arith.mulsi_extended %a, %a : i32 %x = arith.muli %a, %a : i32 return }"
    )
    found = walk_named(module.operation, OPERATORS.__contains__)
    assert [typed(op).scalar for op in found] == [False, True]
