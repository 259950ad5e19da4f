"""Abstract async ops lowered for a chip: the same results, on the machine that runs late.

Each kernel is run with its abstract ops and with what they were lowered to; copies arrive as
late as the waits allow, so a wait that vanished with too much shows.

Covers: lowering/scopes/abstract_ops.py, lowering/rocdl/to_rocdl.py, lowering/nvvm/to_nvvm.py,
lowering/scopes/scope_copies.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.session.diagnostics import LoweringError
from mlir_async_pipe.session.report import Session

THREADS = 8
GROUP = "!nvgpu.device.async.token"


def scope(queue: int, body: str) -> str:
    return f'"async_pipe.scope"() ({{ {body} "async_pipe.yield"() : () -> () }}) {{queue = {queue} : i64}} : () -> ()'


def commit(name: str, queue: int) -> str:
    return f'%{name} = "async_pipe.commit_queue"() {{queue = {queue} : i64}} : () -> {GROUP}'


def wait(name: str, queue: int, count: int) -> str:
    return f'"async_pipe.wait_queue"(%{name}) {{queue = {queue} : i64, count = {count} : i64}} : ({GROUP}) -> ()'


def copy(name: str, row: str) -> str:
    """Thread t copies A[row, t] to tile[row, t]."""
    return (
        f"%{name} = memref.load %A[%{row}, %t] : memref<8x8xf32>\n"
        f"memref.store %{name}, %tile[%{row}, %t] : memref<8x8xf32, #gpu.address_space<workgroup>>\n"
    )


def compute(name: str, row: str) -> str:
    """Thread t adds one to tile[row, t], into sums[row, t]."""
    wg = "memref<8x8xf32, #gpu.address_space<workgroup>>"
    return (
        f"%{name} = memref.load %tile[%{row}, %t] : {wg}\n"
        f"%{name}_1 = arith.addf %{name}, %one : f32\n"
        f"memref.store %{name}_1, %sums[%{row}, %t] : {wg}\n"
    )


def result(name: str, source: str, row: str) -> str:
    """Thread t writes source[row, t] to C[row, t]."""
    return (
        f"%{name} = memref.load %{source}[%{row}, %t] : memref<8x8xf32, #gpu.address_space<workgroup>>\n"
        f"memref.store %{name}, %C[%{row}, %t] : memref<8x8xf32>\n"
    )


def kernel(*lines: str) -> str:
    constants = "\n".join(f"%c{i} = arith.constant {i} : index" for i in range(9))
    body = "\n".join(lines)
    return f"""
gpu.module @kernels {{
  gpu.func @kernel(%A : memref<8x8xf32> {{llvm.noalias}}, %C : memref<8x8xf32> {{llvm.noalias}})
      workgroup(%tile : memref<8x8xf32, #gpu.address_space<workgroup>>,
                %sums : memref<8x8xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
    {constants}
    %one = arith.constant 1.0 : f32
    %t = gpu.thread_id x
    memref.store %one, %tile[%c2, %t] : memref<8x8xf32, #gpu.address_space<workgroup>>
    {body}
    gpu.return
  }}
}}"""


TWO_COPIES = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    wait("first", 0, 1),
    result("x", "tile", "c0"),
    wait("second", 0, 0),
    result("y", "tile", "c1"),
)

COPY_AND_COMPUTE_QUEUES = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    wait("first", 0, 0),
    scope(1, compute("s", "c0")),
    commit("sum", 1),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    wait("sum", 1, 0),
    result("x", "sums", "c0"),
    wait("second", 0, 0),
    result("y", "tile", "c1"),
)

# On one queue: the group of the computation vanishes, and with it one of the two groups that
# were younger than the first copy's.
ONE_MIXED_QUEUE = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    scope(0, compute("s", "c2")),
    commit("sum", 0),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    wait("first", 0, 2),
    result("x", "tile", "c0"),
    wait("second", 0, 0),
    result("y", "tile", "c1"),
)

# A group of a copy and a computation stays a group.
MIXED_GROUP = kernel(
    scope(0, copy("a", "c0")),
    scope(0, compute("s", "c2")),
    commit("first", 0),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    wait("first", 0, 1),
    result("x", "tile", "c0"),
    wait("second", 0, 0),
    result("y", "tile", "c1"),
)

IN_A_LOOP = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    f"%last = scf.for %i = %c1 to %c6 step %c1 iter_args(%group = %first) -> ({GROUP}) {{",
    "%before = arith.subi %i, %c1 : index",
    scope(0, copy("b", "i")),
    commit("next", 0),
    wait("group", 0, 1),
    result("x", "tile", "before"),
    f"scf.yield %next : {GROUP}",
    "}",
    wait("last", 0, 0),
    result("y", "tile", "c5"),
)

# The first group of the loop is a computation, the others are copies.
MIXED_IN_A_LOOP = kernel(
    scope(0, compute("s", "c2")),
    commit("first", 0),
    f"%last = scf.for %i = %c3 to %c6 step %c1 iter_args(%group = %first) -> ({GROUP}) {{",
    scope(0, copy("b", "i")),
    commit("next", 0),
    wait("group", 0, 1),
    f"scf.yield %next : {GROUP}",
    "}",
    wait("last", 0, 0),
    result("x", "sums", "c2"),
    result("y", "tile", "c5"),
)

# A wait for two groups, one of which is a computation.
TWO_TOKENS = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    scope(0, compute("s", "c2")),
    commit("sum", 0),
    f'"async_pipe.wait_queue"(%first, %sum) {{queue = 0 : i64, count = 0 : i64}} : ({GROUP}, {GROUP}) -> ()',
    result("x", "tile", "c0"),
    result("y", "sums", "c2"),
)

# Counts without tokens: given by the author, and derived for the next group of a queue.
COUNT_ALONE = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    scope(0, compute("s", "c2")),
    commit("sum", 0),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    '"async_pipe.wait_queue"() {queue = 0 : i64, count = 2 : i64} : () -> ()',
    result("x", "tile", "c0"),
    wait("second", 0, 0),
)

NEXT_GROUP = kernel(
    scope(0, copy("a", "c0")),
    commit("first", 0),
    scope(1, compute("s", "c2")),
    commit("sum", 1),
    scope(0, copy("b", "c1")),
    commit("second", 0),
    '"async_pipe.consumer_wait"() {queue = 0 : i64, count = 2 : i64} : () -> ()',
    result("x", "tile", "c0"),
    '"async_pipe.consumer_release"() {queue = 0 : i64} : () -> ()',
    wait("second", 0, 0),
)

KERNELS = {
    "two copies": TWO_COPIES,
    "two queues": COPY_AND_COMPUTE_QUEUES,
    "one mixed queue": ONE_MIXED_QUEUE,
    "a mixed group": MIXED_GROUP,
    "a loop": IN_A_LOOP,
    "a mixed loop": MIXED_IN_A_LOOP,
    "two tokens": TWO_TOKENS,
    "a count alone": COUNT_ALONE,
}


def lowered(text: str, session: Session | None = None) -> Any:
    """The module with its abstract ops lowered for sm_80, counted again where asked for."""
    session = session or Session(target=Target.of_chip("sm_80"))
    module = ir.Module.parse(text)
    lower_abstract_ops(module.operation, CHIPS["sm_80"], session, strict=False)
    assert module.operation.verify()
    assert not [op.name for op in walk(module) if op.name.startswith("async_pipe.")]
    return module


def run(module: Any) -> np.ndarray:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    found = machine.run(module, "kernel", [a, np.zeros_like(a)], threads=THREADS, completion="late")
    assert found.races == ()
    array = found.arrays[1]
    assert array is not None
    return array


@pytest.mark.parametrize("name", KERNELS)
def test_lowered_kernels_compute_what_the_abstract_ones_do(name: str) -> None:
    with new_context():
        expected = run(ir.Module.parse(KERNELS[name]))
        assert expected.any()
        np.testing.assert_array_equal(run(lowered(KERNELS[name])), expected)


@pytest.mark.parametrize(
    ("name", "groups", "counts"),
    [
        ("two copies", 2, [1, 0]),
        ("two queues", 2, [0, 0]),
        ("one mixed queue", 2, [1, 0]),
        ("a mixed group", 2, [1, 0]),
        ("a loop", 2, [1, 0]),
        ("two tokens", 2, [0]),
        ("a mixed loop", 2, [1, 0]),
    ],
)
def test_groups_that_vanish_are_in_no_count(name: str, groups: int, counts: list[int]) -> None:
    with new_context():
        ops = list(walk(lowered(KERNELS[name])))
        assert sum(op.name == "nvgpu.device_async_create_group" for op in ops) == groups
        waits = [op for op in ops if op.name == "nvgpu.device_async_wait"]
        assert [integer_attribute(op, "numGroups") or 0 for op in waits] == counts


def test_queues_that_share_a_fifo_are_reported() -> None:
    text = kernel(
        scope(0, copy("a", "c0")),
        commit("first", 0),
        scope(1, copy("b", "c1")),
        commit("second", 1),
        wait("first", 0, 0),
        wait("second", 1, 0),
        result("x", "tile", "c0"),
    )
    session = Session(target=Target.of_chip("sm_80"))
    with new_context():
        run(lowered(text, session))
    assert [item.code for item in session.diagnostics.items] == ["queues-merged"]


def test_a_scope_in_place_is_reported_once_a_place() -> None:
    session = Session(target=Target.of_chip("sm_80"))
    with new_context():
        lowered(COPY_AND_COMPUTE_QUEUES, session)
    assert [item.code for item in session.diagnostics.items] == ["sync-fallback"]


def test_a_commit_that_may_cover_a_copy_from_elsewhere_stays() -> None:
    text = kernel(
        "%c = arith.cmpi ult, %t, %c4 : index",
        "scf.if %c {",
        scope(0, copy("a", "c0")),
        "}",
        scope(0, compute("s", "c2")),
        commit("first", 0),
        wait("first", 0, 0),
    )
    with new_context():
        names = [op.name for op in walk(lowered(text))]
    assert "nvgpu.device_async_create_group" in names
    assert "nvgpu.device_async_wait" in names


@pytest.mark.parametrize(("text", "count"), [(COUNT_ALONE, 0), (NEXT_GROUP, 1)])
def test_counts_without_tokens_do_not_include_what_vanished(text: str, count: int) -> None:
    with new_context():
        module = lowered(text)
        waits = [op for op in walk(module) if op.name == "nvvm.cp.async.wait.group"]
        assert [integer_attribute(op, "n") for op in waits] == [count]
        run(module)


def test_a_wait_for_a_computation_still_retires_the_copies_before_it() -> None:
    """On one queue the computation's group stands after the copy's: its wait covers both."""
    text = kernel(
        scope(0, copy("a", "c0")),
        commit("first", 0),
        scope(0, compute("s", "c2")),
        commit("sum", 0),
        wait("sum", 0, 0),
        result("x", "tile", "c0"),
    )
    with new_context():
        expected = run(ir.Module.parse(text))
        np.testing.assert_array_equal(run(lowered(text)), expected)


def test_a_commit_may_cover_the_copies_of_a_callee() -> None:
    text = kernel(
        "func.call @issue(%A, %tile, %t) : (memref<8x8xf32>, "
        "memref<8x8xf32, #gpu.address_space<workgroup>>, index) -> ()",
        scope(0, compute("s", "c2")),
        commit("first", 0),
        wait("first", 0, 0),
        result("x", "tile", "c0"),
    )
    callee = (
        "func.func @issue(%A : memref<8x8xf32>, "
        "%tile : memref<8x8xf32, #gpu.address_space<workgroup>>, %t : index) {\n"
        "%c0 = arith.constant 0 : index\n" + scope(0, copy("a", "c0")) + "\nreturn }\n"
    )
    text = text.replace("gpu.module @kernels {", "gpu.module @kernels {" + callee)
    with new_context():
        module = lowered(text)
        names = [op.name for op in walk(module)]
        assert names.count("nvgpu.device_async_create_group") == 1
        assert names.count("nvgpu.device_async_wait") == 1
        run(module)


NARROW = """
gpu.module @kernels {
  gpu.func @kernel(%A: memref<16x8xf32> {llvm.noalias}, %H: memref<16x8xi16> {llvm.noalias},
                   %C: memref<16x8xf32> {llvm.noalias}) kernel
      attributes {known_block_size = array<i32: 8, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = gpu.thread_id x
    %B = memref.alloc() : memref<8xf32, #gpu.address_space<workgroup>>
    %S = memref.alloc() : memref<8xi16, #gpu.address_space<workgroup>>
    scf.for %i = %c0 to %c8 step %c1 {
      %tok = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1
        : memref<16x8xf32> to memref<8xf32, #gpu.address_space<workgroup>>
      %g = nvgpu.device_async_create_group %tok
      %h = memref.load %H[%i, %t] : memref<16x8xi16>
      memref.store %h, %S[%t] : memref<8xi16, #gpu.address_space<workgroup>>
      nvgpu.device_async_wait %g
      %u = memref.load %B[%t] : memref<8xf32, #gpu.address_space<workgroup>>
      %p = memref.load %S[%t] : memref<8xi16, #gpu.address_space<workgroup>>
      %q = arith.sitofp %p : i16 to f32
      %z = arith.addf %u, %q : f32
      memref.store %z, %C[%i, %t] : memref<16x8xf32>
    } {async_pipe.stage = [0, 0, 0, 1, 1, 1], async_pipe.order = [0, 1, 2, 3, 4, 5],
       async_pipe.async_stages = [0], async_pipe.wait_at = "iteration"}
    gpu.return
  }
}
"""


def test_a_native_wait_survives_the_queue_that_runs_in_place() -> None:
    """cp.async cannot copy 2 bytes: the pair runs in place and its queue is gone. The copy's own
    waits, next to those of that queue, are not."""
    arrays = [
        np.arange(128, dtype=np.float32).reshape(16, 8),
        np.arange(128, dtype=np.int16).reshape(16, 8),
        np.zeros((16, 8), np.float32),
    ]
    with new_context():
        module = ir.Module.parse(NARROW)
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        target = Target.of_chip("sm_80")
        lower_abstract_ops(module.operation, target.chip, Session(target=target), strict=False)
        names = [op.name for op in walk(module)]
        assert "async_pipe.wait_queue" not in names
        assert names.count("nvgpu.device_async_wait") == 2
        found = machine.run(module, "kernel", arrays, threads=8, completion="late", target=target)
        assert found.races == ()
        assert found.arrays[2] is not None
        np.testing.assert_array_equal(found.arrays[2][:8], (arrays[0] + arrays[1])[:8])


def test_a_copy_that_only_a_vanished_wait_covered_is_refused() -> None:
    """Queue 0 copies, queue 1 runs in place. On the one FIFO of the chip a wait on queue 1 also
    retires the copy before it, but that wait goes with its queue."""
    text = kernel(
        scope(0, copy("a", "c0")),
        commit("first", 0),
        scope(1, compute("s", "c2")),
        commit("sum", 1),
        wait("sum", 1, 0),
        result("x", "tile", "c0"),
    )
    with new_context(), pytest.raises(LoweringError, match="lost-wait"):
        lowered(text)
