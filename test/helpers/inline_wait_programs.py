"""Puts the bodies of callees in the place of calls, in random wait programs.

%r = call @g(%a)   -->   %r = execute_region { body of @g with %a for its parameter; yield … }
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

from helpers.wait_programs import Call, Function, Once, Program, Truth

# What every function defines under the same name.
SHARED = re.compile(r"%(dynamic|zero|one|true|trips\d+)$")


def inlined(program: Program) -> Program:
    """The program with all calls of other known functions inlined; calls of a function by
    itself stay."""
    functions: dict[str, Function] = {}
    fresh = itertools.count()
    for function in program.functions:
        body = _body(function.body, function.name, functions, fresh)
        functions[function.name] = dataclasses.replace(function, body=body)
    return dataclasses.replace(program, functions=list(functions.values()))


def _body(ops: list, caller: str, functions: dict[str, Function], fresh: Any) -> list:
    found: list = []
    for op in ops:
        if isinstance(op, Call) and op.function in functions and op.function != caller:
            found += _inline(op, functions[op.function], next(fresh))
        elif dataclasses.is_dataclass(op):
            found.append(_with_bodies(op, caller, functions, fresh))
    return found


def _with_bodies(op: Any, caller: str, functions: dict[str, Function], fresh: Any) -> Any:
    """The op with calls in its own bodies inlined."""

    def visit(value: Any) -> Any:
        if isinstance(value, list) and any(dataclasses.is_dataclass(entry) for entry in value):
            if all(hasattr(entry, "targets") for entry in value):
                return [
                    dataclasses.replace(block, body=_body(block.body, caller, functions, fresh))
                    for block in value
                ]
            return _body(value, caller, functions, fresh)
        if isinstance(value, list) and any(isinstance(entry, list) for entry in value):
            return [visit(entry) for entry in value]
        return value

    fields = {field.name: visit(getattr(op, field.name)) for field in dataclasses.fields(op)}
    return dataclasses.replace(op, **fields)


def _inline(call: Call, callee: Function, number: int) -> list:
    names = dict(zip(callee.tokens, call.arguments, strict=True))
    names |= dict(zip(callee.conditions, call.truths, strict=True))

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            if not value.startswith("%") or SHARED.match(value):
                return value
            return names.get(value, f"{value}_{number}")
        if isinstance(value, (list, tuple)):
            return type(value)(renamed(entry) for entry in value)
        if isinstance(value, dict):
            return {key: renamed(entry) for key, entry in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return dataclasses.replace(
                value, **{field.name: renamed(getattr(value, field.name)) for field in fields}
            )
        return value

    body = renamed(callee.body)
    results = list(zip(call.results, renamed(callee.returned), strict=True))
    return [*(Truth(name) for name in call.truths), Once(body, results)]
