"""Law: a module whose equal functions are expanded once becomes what it becomes when each is, on random
programs with every function four times: text with places, report, and what is told.

The copies have names of their own; in one of them the first sizes of memory are larger.

Covers: expand/equal/equal_functions.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.random_pipelines import FEATURES, program
from helpers.repeated_parts import expanded
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, after, functions, symbol_name
from mlir_async_pipe.expand.equal.equal_functions import EqualFunctions

pytestmark = pytest.mark.slow

MODULES = 500
COPIES = 3


def repeat_functions(module: Any) -> None:
    """Put copies of every function after it."""
    for function in functions(module):
        place = function
        for number in range(COPIES):
            place = function.clone(ip=after(place)).operation
            name = f"{symbol_name(function)}_{number}"
            place.attributes["sym_name"] = ir.StringAttr.get(name)
            if number % 2 and "func.call" not in str(place):
                enlarge(place, number)


def enlarge(function: Operation, more: int) -> None:
    """Make the first sizes larger of all memory that a function is handed."""
    arguments = function.regions[0].blocks[0].arguments
    for argument in arguments:
        if str(argument.type).startswith("memref<") and "?" not in str(argument.type):
            kind = ir.MemRefType(argument.type)
            first, *rest = kind.shape
            argument.set_type(ir.MemRefType.get([first + more, *rest], kind.element_type))
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    of_function = ir.FunctionType.get([each.type for each in arguments], kind.results)
    function.attributes["function_type"] = ir.TypeAttr.get(of_function)


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_copies_of_functions_are_the_functions(
    feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Any] = []
    write = EqualFunctions.write

    def counted(self: EqualFunctions) -> None:
        copies.extend(self._copies)
        write(self)

    monkeypatch.setattr(EqualFunctions, "write", counted)
    for seed in range(-(-MODULES // len(FEATURES))):
        text = program(seed, feature).text
        assert expanded(text, repeat_functions, share=True) == expanded(
            text, repeat_functions, share=False
        ), (feature, seed)
    # What names a symbol is like no other function.
    assert copies or feature in ("calls", "globals")
