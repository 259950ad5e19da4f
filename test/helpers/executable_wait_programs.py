"""Random wait programs in a form that the async machine can run: conditions come from a stream.

%k = "test.truth"() : () -> i1     -->     %k = stream[cursor & 4095]; cursor += 1
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from helpers.random_wait_programs import Maker
from helpers.wait_programs import Function, print_program
from mlir_async_pipe import machine
from mlir_async_pipe.machine.timeline import Trace
from mlir_async_pipe.session.diagnostics import MachineError

LENGTH = 4096
STREAM = f"memref<{LENGTH}xi1>"
CURSOR = "memref<index>"


def executable(seed: int) -> tuple[str, Function] | None:
    """The text of a random program and the function to run; None if nothing can run it (it
    calls unknown functions or itself, or starts with tokens)."""
    program = Maker(seed).make()
    entry = program.functions[-1]
    text = print_program(program)
    if "recursion" in program.features or entry.tokens or "@unknown(%" in text:
        return None
    if program.function_scope or any(
        word in text for word in ('"test.unknown"', "func.call @unknown", "scf.forall")
    ):
        return None
    text = text.replace(
        "%dynamic: index)", f"%dynamic: index, %stream: {STREAM}, %cursor: {CURSOR})"
    )
    text = re.sub(
        r"(func\.call @f\d+\(.*?%dynamic)\) : \((.*?)index\) ->",
        rf"\1, %stream, %cursor) : (\2index, {STREAM}, {CURSOR}) ->",
        text,
    )
    text = text.replace(
        "%zero = arith.constant 0 : index",
        f"%last = arith.constant {LENGTH - 1} : index\n%zero = arith.constant 0 : index",
    )
    return re.sub(r'(%\w+) = "test.truth"\(\) : \(\) -> i1', _read_stream, text), entry


def _read_stream(match: re.Match[str]) -> str:
    name = match[1]
    return "\n".join(
        [
            f"{name}_at = memref.load %cursor[] : {CURSOR}",
            f"{name}_in = arith.andi {name}_at, %last : index",
            f"{name} = memref.load %stream[{name}_in] : {STREAM}",
            f"{name}_next = arith.addi {name}_at, %one : index",
            f"memref.store {name}_next, %cursor[] : {CURSOR}",
        ]
    )


def run_waits(module: Any, entry: Function, seed: int) -> tuple[machine.WaitRecord, ...]:
    """The waits of one run with random conditions and trip counts; () if it does not end."""
    result = _run(module, entry, seed)
    return () if result is None else result.waits


def run_trace(module: Any, entry: Function, seed: int, target: Any) -> tuple[Any, Any]:
    """The waits and the trace of one such run; nothing if it does not end."""
    result = _run(module, entry, seed, target=target)
    return ((), Trace()) if result is None else (result.waits, result.trace)


def _run(module: Any, entry: Function, seed: int, **options: Any) -> Any:
    random = np.random.default_rng(seed)
    arguments = [
        *(int(random.integers(2)) for _ in entry.conditions),
        int(random.integers(4)),
        random.integers(2, size=LENGTH).astype(np.bool_),
        np.zeros((), np.int64),
    ]
    try:
        return machine.run(module, entry.name, arguments, step_limit=1500, **options)
    except MachineError as error:
        assert error.diagnostic.code == "step-limit"
        return None
