"""The same small rewrite runs on every stack of bindings that is installed.

Each stack gets a process of its own: two in one process would mix their classes.

Covers: bindings/__init__.py, bindings/raw_ops.py,
bindings/op_classes/async_pipe.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.driver_process import opt
from helpers.paths import ROOT
from mlir_async_pipe import bindings

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "add_one.mlir"
STACKS = [stack.name for stack in bindings.installed()]

# Counts walked ops, folds `x + 0` through the helpers, adds a group by its generic form,
# clones a region with remapped captures, and round-trips the text.
REWRITE = """
import sys

from mlir_async_pipe import bindings

bindings.use(sys.argv[1], stub_parents=sys.argv[2] == "stub")
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    after, before, clone, constant_value, create, erase, operations, walk,
)

TEXT = '''
func.func @f(%a: index, %m: memref<8xindex>) -> index {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = arith.addi %a, %zero : index
  scf.for %i = %zero to %a step %one {
    memref.store %sum, %m[%i] : memref<8xindex>
  }
  return %sum : index
}
'''
context = bindings.new_context()
module = ir.Module.parse(TEXT, context=context)
function = operations(module.body)[0]
names = [op.name for op in walk(function)]
assert names.count("arith.constant") == 2, names

body = function.regions[0].blocks[0]
zero, one, total, loop, end = operations(body)
assert constant_value(total.operands[1]) == 0
total.results[0].replace_all_uses_with(total.operands[0])
location = ir.Location.unknown(context)
copy = clone(loop, {zero.results[0]: one.results[0]}, after(loop))
assert copy.operands[0] == one.results[0]
token = ir.Type.parse("!nvgpu.device.async.token", context)
create("async_pipe.commit_queue", results=[token], ip=before(end), loc=location)
erase([total])
assert module.operation.verify()

again = ir.Module.parse(str(module), context=context)
assert str(again) == str(module)
left = [op.name for op in operations(operations(again.body)[0].regions[0].blocks[0])]
print(bindings.current().name, *left)
"""
EXPECTED = "arith.constant arith.constant scf.for scf.for async_pipe.commit_queue func.return"


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k != bindings.ENVIRONMENT_VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, **environment},
    )


@pytest.mark.parametrize("parents", ["stub", "whole"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_rewrite_gives_the_same_ir_on_every_stack(stack, parents):
    done = run(REWRITE, stack, parents)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{stack} {EXPECTED}"


@pytest.mark.parametrize("stack", STACKS)
def test_the_whole_pipeline_gives_the_same_text_on_every_stack(stack):
    words = (EXAMPLE, "--async-pipe", "--cse", "--target=nvvm:sm_80")
    ended = opt(*words, f"--bindings={stack}")
    first = opt(*words, f"--bindings={STACKS[0]}")
    assert (ended.code, ended.out, ended.err) == (0, first.out, first.err)
    assert "error" not in ended.err and "warning" not in ended.err
    assert ended.out.count("numGroups = 1") == 2


def test_some_stack_is_installed():
    assert STACKS


CURRENT = "from mlir_async_pipe import bindings; print(bindings.current().name)"


def test_the_first_installed_stack_is_the_default():
    assert run(CURRENT).stdout.strip() == STACKS[0]


@pytest.mark.parametrize("stack", STACKS)
def test_the_environment_decides(stack):
    done = run(CURRENT, **{bindings.ENVIRONMENT_VARIABLE: stack})
    assert done.stdout.strip() == stack


@pytest.mark.parametrize("stack", STACKS)
def test_a_call_decides_over_the_environment(stack):
    script = f"from mlir_async_pipe import bindings; bindings.use({stack!r});" + CURRENT
    done = run(script, **{bindings.ENVIRONMENT_VARIABLE: STACKS[0]})
    assert done.stdout.strip() == stack


@pytest.mark.parametrize("stack", STACKS)
def test_an_imported_stack_is_taken(stack):
    prefix = next(entry.prefix for entry in bindings.STACKS if entry.name == stack)
    done = run(f"import {prefix}.ir\n{CURRENT}")
    assert done.stdout.strip() == stack


def test_an_unknown_stack_is_refused():
    done = run("from mlir_async_pipe import bindings; bindings.use('nothing')")
    assert "[bindings-unknown]" in done.stderr


def test_a_second_choice_is_refused():
    script = """
from mlir_async_pipe import bindings
bindings.current()
other = next(stack for stack in bindings.STACKS if stack != bindings.current())
bindings.use(other.name)
"""
    assert "[bindings-already-chosen]" in run(script).stderr


def test_a_stack_that_is_not_installed_is_refused_with_the_command():
    missing = next(stack for stack in bindings.STACKS if stack.name not in STACKS)
    done = run(f"from mlir_async_pipe import bindings; bindings.use({missing.name!r})")
    assert "[bindings-missing]" in done.stderr
    assert "install" in done.stderr


OP_CLASSES = """
import sys

from mlir_async_pipe import bindings

bindings.use(sys.argv[1], stub_parents=True)
if sys.argv[2] == "without":
    bindings.without_op_classes()
ir = bindings.load("ir")
context = bindings.new_context()
text = "func.func @f() -> i32 { %0 = arith.constant 0 : i32 \\n return %0 : i32 }"
module = ir.Module.parse(text, context=context)
constant = module.body.operations[0].regions[0].blocks[0].operations[0]
assert constant.operation.name == "arith.constant"
imported = sorted(name for name in sys.modules if name.endswith("._arith_ops_gen"))
print(type(constant).__name__, len(imported))
"""


def op_class(stack: str, how: str) -> str:
    """The class of an arith.constant, and how many modules of arith's op classes are there."""
    done = subprocess.run(
        [sys.executable, "-c", OP_CLASSES, stack, how], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("stack", STACKS)
def test_without_op_classes_none_is_imported(stack: str) -> None:
    assert op_class(stack, "without").endswith(" 0")


def test_op_classes_of_the_default_stack_are_there_otherwise() -> None:
    assert op_class("numba-cuda-mlir", "with") == "ConstantOp 1"


def test_a_hook_of_the_tool_finds_op_classes(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(
        "from mlir_async_pipe import bindings\n"
        "def look():\n"
        "    ir = bindings.load('ir')\n"
        "    text = 'func.func private @f()'\n"
        "    module = ir.Module.parse(text, context=bindings.new_context())\n"
        "    print(type(module.body.operations[0]).__name__)\n"
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    ended = opt("--load=hook:look", EXAMPLE, environment=environment)
    assert ended.code == 0
    assert ended.out.startswith("FuncOp\n")


def test_a_stack_that_keeps_its_settings_in_ir_is_given_where_op_classes_are() -> None:
    """Else it would look for those of a dialect, in vain, at each type that it hands out."""
    reported: list[str] = []
    settings = SimpleNamespace(
        dialect_search_modules=[], append_dialect_search_prefix=reported.append
    )
    stack = bindings.Stack("other", "no_such_stack", "other")
    bindings._announce_op_classes(stack, SimpleNamespace(_globals=settings))
    assert reported == [bindings.OP_CLASSES]
    bindings._announce_op_classes(stack, SimpleNamespace())
