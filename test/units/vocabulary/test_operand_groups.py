"""The operand groups of rows are those of the ops, whatever the version of the bindings.

Covers: vocabulary/op_table.py, vocabulary/barriers.py
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.driver_process import opt
from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.vocabulary import ROWS, operand_groups

STACKS = [stack.name for stack in bindings.installed()]

# What the op classes of a stack say of their segments: 1 one, 0 an optional one, -1 any number.
COMPARE = """
import sys
from mlir_async_pipe import bindings
bindings.use(sys.argv[1])
from mlir_async_pipe.session.diagnostics import BindingsError
from mlir_async_pipe.vocabulary import ROWS

def lengths(names):
    return [{"*": -1, "?": 0}.get(name[-1], 1) for name in names]

seen = 0
for dialect in ("amdgpu", "gpu", "llvm", "memref", "nvgpu", "nvvm", "rocdl", "vector"):
    try:
        module = bindings.load(f"dialects.{dialect}")
    except BindingsError:
        continue
    for found in vars(module).values():
        segments = getattr(found, "_ODS_OPERAND_SEGMENTS", None)
        if segments is None:
            continue
        row = ROWS.get(found.OPERATION_NAME)
        if row is None or not row.operands:
            continue
        seen += 1
        older = [name for name in row.operands if not name.startswith("+")]
        if list(segments) not in (lengths(row.operands), lengths(older)):
            print(found.OPERATION_NAME, segments, row.operands)
print(seen > 0)
"""


@pytest.mark.parametrize("stack", STACKS)
def test_rows_have_the_operand_groups_of_every_stack(stack):
    command = [sys.executable, "-c", COMPARE, stack]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["True", ""], done.stderr


ARRIVALS = """
llvm.func @k(%p: !llvm.ptr<3>, %n: i32, %m: i16, %q: i1) {
  OP
  llvm.return
}"""
NEWER = {
    # operands, lengths of their groups: what is where
    "nvvm.mbarrier.arrive": [
        ("%p", (1, 0, 0), {"barrier": [0]}),
        ("%p, %n", (1, 1, 0), {"barrier": [0], "arrivals": [1]}),
        ("%p, %m", (1, 0, 1), {"barrier": [0], "multicast": [1]}),
        ("%p, %n", None, {"barrier": [0], "arrivals": [1]}),
    ],
    "nvvm.mbarrier.arrive.expect_tx": [
        ("%p, %n, %q", (1, 1, 0, 1), {"barrier": [0], "bytes": [1], "predicate": [2]}),
        ("%p, %n, %m", (1, 1, 1, 0), {"barrier": [0], "bytes": [1], "multicast": [2]}),
        ("%p, %n, %q", None, {"barrier": [0], "bytes": [1], "predicate": [2]}),
    ],
}
TYPES = {"%p": "!llvm.ptr<3>", "%n": "i32", "%m": "i16", "%q": "i1"}


def groups(name: str, operands: str, sizes: tuple[int, ...] | None) -> dict[str, list[int]]:
    """The groups of an op in the form of bindings that give it these lengths."""
    lengths = f"array<i32: {', '.join(map(str, sizes))}>" if sizes else ""
    given = f"{{operandSegmentSizes = {lengths}}}" if sizes else ""
    types = ", ".join(TYPES[operand] for operand in operands.split(", "))
    with new_context() as context:
        # Bindings in which the op has other groups would refuse it.
        context.allow_unregistered_dialects = True
        unknown = name.replace("nvvm.", "other.")
        text = ARRIVALS.replace("OP", f'"{unknown}"({operands}) {given} : ({types}) -> ()')
        module = ir.Module.parse(text)
        op = next(op for op in walk(module.operation) if op.name == unknown)
        found = operand_groups(op, ROWS[name])
    return {group: list(numbers) for group, numbers in found.items() if len(numbers)}


@pytest.mark.parametrize(
    ("name", "operands", "sizes", "expected"),
    [(name, *form) for name, forms in NEWER.items() for form in forms],
)
def test_groups_follow_the_segments_that_the_op_has(name, operands, sizes, expected):
    assert groups(name, operands, sizes) == expected


def test_groups_that_no_bindings_are_known_to_have_are_refused():
    with pytest.raises(InputError, match=r"5 groups .* \(barrier, arrivals, multicast\)") as found:
        groups("nvvm.mbarrier.arrive", "%p", (1, 0, 0, 0, 0))
    assert found.value.code == "unknown-operands"


KERNEL = """
gpu.module @m {
  gpu.func @k(%C: memref<64xf32> {llvm.noalias})
      workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : i32
    %threads = arith.constant THREADS : i32
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %o = arith.subi %c63, %t : index
    memref.store %zero, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    BARRIER
    %v = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %v, %C[%t] : memref<64xf32>
    gpu.return
  }
}"""
NAMED = "nvvm.barrier id = %c1 number_of_threads = %threads"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("barrier", "threads", "verdict"),
    [("nvvm.barrier", 64, "k 3 0 0"), (NAMED, 64, "k 3 0 0"), (NAMED, 32, "k 3 0 1")],
)
def test_named_barriers_are_read_in_the_form_of_every_stack(stack, barrier, threads, verdict):
    text = KERNEL.replace("BARRIER", barrier).replace("THREADS", str(threads))
    words = ("-", "--async-pipe-check", "--check=warn", "--report=text", f"--bindings={stack}")
    # The kernel, its accesses, those unsafe, those unknown.
    assert verdict in " ".join(opt(*words, stdin=text).err.split())


WRITE = """
import sys
from mlir_async_pipe import bindings
bindings.use(sys.argv[1])
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import before, operations
from mlir_async_pipe.vocabulary.barriers import write_named_barrier

with new_context():
    module = ir.Module.parse("llvm.func @k(%n: i32, %t: i32) {\\n llvm.return\\n}")
    block = operations(module.body)[0].regions[0].blocks[0]
    number, threads = block.arguments
    end = operations(block)[-1]
    write_named_barrier(number, threads, before(end), end.location)
    module.operation.verify()
    print(module)
"""


@pytest.mark.parametrize("stack", STACKS)
def test_named_barriers_are_written_in_the_form_of_every_stack(stack):
    command = [sys.executable, "-c", WRITE, stack]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "nvvm.barrier id = %arg0 number_of_threads = %arg1" in done.stdout, done.stderr
