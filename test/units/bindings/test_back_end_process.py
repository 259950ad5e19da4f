"""The child that makes code is kept for the next request, and replaced when it dies.

Covers: bindings/back_end_process.py, bindings/back_end_child.py
"""

from __future__ import annotations

import os
import signal

import pytest

from mlir_async_pipe.bindings import back_end_process
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.session.diagnostics import LoweringError

pytestmark = [pytest.mark.slow]

STACK = "numba-cuda-mlir"
MODULE = "module { func.func @f() { return } }"
CANONICAL = ("builtin.module(canonicalize)",)


def asked(text: str, lowering: tuple[str, ...] = CANONICAL, binary: str = "") -> str:
    """What the child answers to one request."""
    steps = back_end_process.run(Request(STACK, text, lowering, binary, "module"))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value.decode()


def waiting() -> int:
    """The number of the process that waits for the next request."""
    return back_end_process._waiting[STACK].process.pid


@pytest.fixture(autouse=True)
def no_child_before():
    back_end_process.end_waiting()
    yield
    back_end_process.end_waiting()


def test_one_child_answers_requests_one_after_the_other():
    assert "@f" in asked(MODULE)
    first = waiting()
    assert "@g" in asked(MODULE.replace("@f", "@g"))
    assert waiting() == first


def test_a_child_that_answers_with_an_error_is_kept():
    asked(MODULE)
    first = waiting()
    with pytest.raises(LoweringError) as caught:
        asked('module { gpu.module @m { "other.op"() : () -> () } }', (), CANONICAL[0])
    assert caught.value.code == "left-over-op"
    assert "@f" in asked(MODULE)
    assert waiting() == first


def test_a_child_that_was_killed_is_replaced():
    asked(MODULE)
    killed = waiting()
    os.kill(killed, signal.SIGKILL)
    assert "@f" in asked(MODULE)
    assert waiting() != killed


def test_a_module_that_kills_every_child_is_an_error_and_leaves_none():
    asked(MODULE)
    with pytest.raises(LoweringError) as caught:
        asked("module { not mlir }")
    assert caught.value.code == "codegen-failed"
    assert STACK not in back_end_process._waiting
    assert "@f" in asked(MODULE)


def test_an_answer_that_nobody_waits_for_ends_the_child():
    back_end_process.warm_up("nvvm")
    child = back_end_process._waiting[STACK]
    steps = back_end_process.run(Request(STACK, MODULE, CANONICAL, "", "module"))
    next(steps)
    steps.close()
    assert child.process.returncode is not None
    assert STACK not in back_end_process._waiting


def test_two_requests_at_once_have_a_child_each_and_one_is_kept():
    steps = [
        back_end_process.run(Request(STACK, MODULE, CANONICAL, "", "module")) for _ in range(2)
    ]
    for step in steps:
        next(step)
    for step in steps:
        with pytest.raises(StopIteration) as done:
            next(step)
        assert b"@f" in done.value.value
    assert list(back_end_process._waiting) == [STACK]
