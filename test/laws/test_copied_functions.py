"""Law: a module whose equal functions are expanded once becomes what it becomes when each is, on random
programs with every function four times: text with places, report, and what is told.

The copies have names of their own; in one of them the first sizes of memory are larger.

Covers: expand/equal/equal_functions.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.random_pipelines import FEATURES, program
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import Operation, after, functions, symbol_name
from mlir_async_pipe.expand.equal.equal_functions import EqualFunctions
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session

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


def expanded(text: str, share: bool) -> str:
    """What `async-pipe-expand` prints and tells of a module with its functions repeated."""
    with new_context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        repeat_functions(module)
        module = ir.Module.parse(module.operation.get_asm(assume_verified=True))
        session = Session()
        try:
            schedule = passes.find("async-pipe-schedule")
            schedule.run(module.operation, schedule.options(), session)
            expand = passes.find("async-pipe-expand")
            expand.run(module.operation, expand.options(share_plans=share), session)
        except AsyncPipeError as error:
            return f"{error}\n{session.diagnostics.items}"
        assert module.operation.verify()
        printed = module.operation.get_asm(enable_debug_info=True)
        return f"{printed}\n{session.diagnostics.items}\n{session.records}"


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
        assert expanded(text, share=True) == expanded(text, share=False), (feature, seed)
    # What names a symbol is like no other function.
    assert copies or feature in ("calls", "globals")
