"""Loops, loads and stores of affine in loops with `num_stages`: copies among them run ahead.

Each kernel reverses rows of 32 elements by way of workgroup memory; pipelined with three stages it
gives what it gives as upstream lowers it, whenever copies arrive.

Covers: pipeliner/normalise/affine_loops.py, facts/values/domains.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import check, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.annotations import annotate
from mlir_async_pipe.pipeliner.normalise.affine_loops import write_affine_loops
from mlir_async_pipe.session.diagnostics import InputError

WG = "#gpu.address_space<workgroup>"
STAGES = "{async_pipe.num_stages = 3 : i64}"
ROW, TILE = "memref<32xf32, strided<[1], offset: ?>>", f"memref<32xf32, {WG}>"
ARRAY = "memref<1024xf32>"


def kernel(loop: str) -> str:
    return f"""
gpu.module @m {{
  gpu.func @f(%A: {ARRAY} {{llvm.noalias, llvm.align = 16 : i64}}, %C: {ARRAY} {{llvm.noalias}},
              %n: index) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %s = memref.alloc() : {TILE}
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    {loop}
    gpu.return
  }}
}}"""


def in_affine(bounds: str, row: str = "%i * 32", end: str = STAGES) -> str:
    return kernel(f"""affine.for %i = {bounds} {{
      %v = affine.load %A[{row} + symbol(%t)] : {ARRAY}
      affine.store %v, %s[symbol(%t)] : {TILE}
      gpu.barrier
      %w = affine.load %s[31 - symbol(%t)] : {TILE}
      affine.store %w, %C[{row} + symbol(%t)] : {ARRAY}
      gpu.barrier
    }} {end}""")


KERNELS = {
    "affine.for": in_affine("0 to 32"),
    "a step of rows": in_affine("0 to 1024 step 32", "%i"),
    "a bound that is not known": in_affine("0 to %n"),
    "a bound that is computed": in_affine("0 to affine_map<(d0) -> (d0 floordiv 2)>(%n)"),
    "the least of bounds": in_affine("0 to min affine_map<(d0) -> (d0, 20)>(%n)"),
    "the largest of bounds": in_affine("max affine_map<(d0) -> (d0 - 9, 3)>(%n) to 32"),
    "scf.for": kernel(f"""scf.for %i = %c0 to %c32 step %c1 {{
      %x = arith.muli %i, %c32 : index
      %a = memref.subview %A[%x] [32] [1] : {ARRAY} to {ROW}
      %c = memref.subview %C[%x] [32] [1] : {ARRAY} to {ROW}
      %v = affine.load %a[symbol(%t)] : {ROW}
      affine.store %v, %s[symbol(%t)] : {TILE}
      gpu.barrier
      %w = affine.load %s[31 - symbol(%t)] : {TILE}
      affine.store %w, %c[symbol(%t)] : {ROW}
      gpu.barrier
    }} {STAGES}"""),
    "a loop over two rows of vectors": kernel(f"""
    %two = memref.alloc() : memref<2x32xf32, {WG}>
    affine.for %i = 0 to 16 {{
      affine.for %j = 0 to 2 {{
        %v = affine.vector_load %A[%i * 64 + %j * 32 + symbol(%t)] : {ARRAY}, vector<1xf32>
        affine.vector_store %v, %two[%j, symbol(%t)] : memref<2x32xf32, {WG}>, vector<1xf32>
      }}
      gpu.barrier
      %w = affine.load %two[1, 31 - symbol(%t)] : memref<2x32xf32, {WG}>
      affine.store %w, %C[%i * 64 + symbol(%t)] : {ARRAY}
      gpu.barrier
    }} {STAGES}"""),
    "a sum that is carried": kernel(f"""%zero = arith.constant 0.0 : f32
    %r = affine.for %i = 0 to 32 iter_args(%sum = %zero) -> f32 {{
      %v = affine.load %A[%i * 32 + symbol(%t)] : {ARRAY}
      affine.store %v, %s[symbol(%t)] : {TILE}
      gpu.barrier
      %w = affine.load %s[31 - symbol(%t)] : {TILE}
      gpu.barrier
      %next = arith.addf %sum, %w : f32
      affine.yield %next : f32
    }} {STAGES}
    affine.store %r, %C[symbol(%t)] : {ARRAY}"""),
}


def same_results(text: str, module: ir.Module) -> None:
    """The module computes what the text does that upstream lowers, in every completion."""
    given = np.arange(1, 1025).astype(np.float32)
    before = ir.Module.parse(text)
    passmanager.PassManager.parse("builtin.module(lower-affine)").run(before.operation)
    for n in (0, 1, 2, 7, 32):
        run = machine.run(before, "f", [given, given * 0, n], threads=32)
        for completion in ("eager", "late", "random"):
            found = machine.run(
                module, "f", [given, given * 0, n], threads=32, completion=completion
            )
            assert found.races == run.races == ()
            np.testing.assert_array_equal(found.arrays[1], run.arrays[1])
    assert np.count_nonzero(run.arrays[1])


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx950"])
@pytest.mark.parametrize("name", KERNELS)
def test_copies_of_affine_are_issued_two_iterations_ahead(name: str, target: str) -> None:
    with new_context():
        module = ir.Module.parse(KERNELS[name])
        report = pipeline(module, target)
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
        assert [check.unknown for check in report.of("checks")] == [0]
        assert report.diagnostics == ()
        same_results(KERNELS[name], module)


def test_the_copies_are_asynchronous_in_the_code() -> None:
    with new_context():
        module = ir.Module.parse(KERNELS["affine.for"])
        pipeline(module, "nvvm:sm_80")
        text = lower(module, target="nvvm:sm_80", emit="ptx").text
    assert "cp.async.ca.shared.global" in text
    assert "cp.async.wait_group \t1" in text


def test_where_nothing_is_asynchronous_the_loads_run_ahead_into_registers() -> None:
    with new_context():
        module = ir.Module.parse(KERNELS["affine.for"])
        report = pipeline(module, "rocdl:gfx1100")
        assert [entry.code for entry in report.diagnostics] == ["through-registers"]
        same_results(KERNELS["affine.for"], module)


def test_annotate_takes_loops_of_affine_with_a_number_of_stages() -> None:
    with new_context():
        module = ir.Module.parse(in_affine("0 to 32", end=""))
        (loop,) = [op for op in walk(module.operation) if op.name == "affine.for"]
        with pytest.raises(InputError) as refusal:
            annotate(loop, stage=[0, 0, 0, 1, 1, 1])
        assert refusal.value.code == "not-a-loop"
        annotate(loop, num_stages=3)
        pipeline(module, "nvvm:sm_80")
        expected = ir.Module.parse(KERNELS["affine.for"])
        pipeline(expected, "nvvm:sm_80")
        assert str(module) == str(expected)


CONDITION = "affine.if affine_set<(d0) : (d0 - 3 >= 0)>(%i) { gpu.barrier }"
STAY = {
    "no stages": in_affine("0 to 32", end=""),
    "numbered statements": in_affine("0 to 32", end="{async_pipe.stage = [0, 0, 0, 1, 1, 1]}"),
    "a condition of affine": KERNELS["affine.for"].replace("gpu.barrier", CONDITION, 1),
}


@pytest.mark.parametrize("name", STAY)
def test_other_loops_stay(name: str) -> None:
    with new_context():
        module = ir.Module.parse(STAY[name])
        write_affine_loops(module)
        assert str(module) == str(ir.Module.parse(STAY[name]))


def test_the_advice_of_the_refusal_pipelines_the_loop() -> None:
    """--lower-affine, and the annotation on the loop that this makes."""
    with new_context():
        with pytest.raises(InputError) as error:
            pipeline(ir.Module.parse(STAY["a condition of affine"]), "nvvm:sm_80")
        assert error.value.code == "not-a-loop"
        assert any("--lower-affine" in note.message for note in error.value.diagnostic.notes)
        module = ir.Module.parse(in_affine("0 to 32", end=""))
        passmanager.PassManager.parse("builtin.module(lower-affine)").run(module.operation)
        (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
        annotate(loop, num_stages=3)
        report = pipeline(module, "nvvm:sm_80")
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]


@pytest.mark.parametrize("thread", ["%t", "%c0"])
def test_stores_of_affine_are_never_called_unsafe_by_their_whole_buffer(thread: str) -> None:
    """The check alone does not look into maps: it cannot tell, whoever stores where."""
    text = f"""
    %zero = arith.constant 0.0 : f32
    affine.store %zero, %s[symbol({thread})] : {TILE}"""
    with new_context():
        report = check(ir.Module.parse(kernel(text)))
    assert {entry.code for entry in report.diagnostics} == {"unknown-hazard"}


def rows_by_a_map(rows: str, many: int) -> str:
    """64 threads copy a tile of 64 rows of 8; `rows` says which row a thread's iteration fills."""
    return f"""
    gpu.module @m {{
      gpu.func @f(%A: memref<?x8xf32> {{llvm.noalias, llvm.align = 16 : i64}},
                  %C: memref<64xf32> {{llvm.noalias}})
          kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c4 = arith.constant 4 : index
        %c64 = arith.constant 64 : index
        %t = gpu.thread_id x
        %tile = memref.alloc() {{alignment = 16 : i64}} : memref<64x8xf32, {WG}>
        %n = memref.dim %A, %c0 : memref<?x8xf32>
        %half = arith.remui %t, %c2 : index
        %column = arith.muli %half, %c4 : index
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %i = %c0 to %n step %c64 iter_args(%a = %zero) -> (f32) {{
          scf.for %j = %c0 to %c{many} step %c1 {{
            %r = affine.apply affine_map<(t, j) -> ({rows})>(%t, %j)
            %g = arith.addi %i, %r : index
            %w = vector.load %A[%g, %column] : memref<?x8xf32>, vector<4xf32>
            vector.store %w, %tile[%r, %column] : memref<64x8xf32, {WG}>, vector<4xf32>
          }}
          gpu.barrier
          %x = memref.load %tile[%t, %c4] : memref<64x8xf32, {WG}>
          %b = arith.addf %a, %x : f32
          gpu.barrier
          scf.yield %b : f32
        }} {STAGES}
        memref.store %sum, %C[%t] : memref<64xf32>
        gpu.return
      }}
    }}"""


@pytest.mark.parametrize(
    ("rows", "many", "in_place"),
    [
        ("t floordiv 2 + j * 32", 2, False),
        ("j * 32 + t floordiv 2 + 0", 2, False),
        # Two iterations fill one row, so that they cannot share a group.
        ("t floordiv 2 + (j floordiv 2) * 32", 4, True),
    ],
)
def test_rows_by_a_map_with_a_division_are_copied_asynchronously(
    rows: str, many: int, in_place: bool
) -> None:
    with new_context():
        module = ir.Module.parse(rows_by_a_map(rows, many))
        pipeline(module, target="nvvm:sm_80")
        values = np.arange(3 * 64 * 8, dtype=np.float32).reshape(-1, 8)
        for completion in ("eager", "late"):
            arrays = [values, np.zeros(64, np.float32)]
            done = machine.run(module, "f", arrays, threads=64, completion=completion)
            assert done.races == ()
            expected = values.reshape(3, 64, 8)[:, :, 4].sum(0)
            np.testing.assert_array_equal(done.arrays[1], expected)
        lowered = lower(module, target="nvvm:sm_80", emit="ptx")
        assert ("cp.async.c" not in lowered.text) == in_place
