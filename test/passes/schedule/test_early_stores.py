"""What was loaded ahead into registers is stored an iteration early, where that can be planned.

Covers: pipeliner/schedule/by_count.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, walk
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

WG = "#gpu.address_space<workgroup>"
TILE = f"memref<32xf32, {WG}>"
BYTES = 32 * 4
ROWS = 7


def staged(stages: int, *, between: str = "", more: str = "", after: str = "") -> str:
    """Rows that go through registers and a tile, doubled, and are read there by other threads.

    `between` stands between load and store, `after` after the loop."""
    return f"""
func.func @f(%A: memref<?x32xf32> {{llvm.noalias}}, %C: memref<?x32xf32> {{llvm.noalias}})
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c31 = arith.constant 31 : index
  %rows = memref.dim %A, %c0 : memref<?x32xf32>
  %t = gpu.thread_id x
  %other = arith.subi %c31, %t : index
  %s = memref.alloc() : {TILE}
  scf.for %i = %c0 to %rows step %c1 {{
    %v = memref.load %A[%i, %t] : memref<?x32xf32>
    %w = arith.addf %v, %v : f32
    {between}
    memref.store %w, %s[%t] : {TILE}
    gpu.barrier
    %x = memref.load %s[%other] : {TILE}
    memref.store %x, %C[%i, %t] : memref<?x32xf32>
    gpu.barrier
  }} {{async_pipe.num_stages = {stages} : i64, async_pipe.stage_through = "registers"{more}}}
  {after}
  return
}}"""


def places(text: str, options: str = "") -> dict[str, tuple[int, int]]:
    """Stage and order of the loads and stores, by space, after the schedule alone."""
    with new_context():
        module = ir.Module.parse(text)
        found = passes.find("async-pipe-schedule")
        found.run(module.operation, passes.parse_options(found, options), Session())
        (loop,) = (op for op in walk(module.operation) if op.name == "scf.for")
        return {
            f"{op.name} {'workgroup' if 'workgroup' in str(memory.type) else 'global'}": (
                names.stage_of(op),
                names.order_of(op),
            )
            for op in operations(loop.regions[0].blocks[0])
            for memory in list(op.operands)[op.name == "memref.store" :][:1]
            if op.name.startswith("memref.")
        }


@pytest.mark.parametrize(("stages", "stored"), [(2, 1), (3, 1), (4, 2), (5, 3)])
def test_the_store_runs_a_stage_before_what_reads_it(stages: int, stored: int) -> None:
    found = places(staged(stages))
    assert found["memref.load global"][0] == 0
    assert found["memref.store workgroup"][0] == stored
    assert found["memref.load workgroup"][0] == found["memref.store global"][0] == stages - 1


def test_the_store_comes_before_the_load_that_fills_its_register_again() -> None:
    order = {name: order for name, (_, order) in places(staged(3)).items()}
    assert order["memref.store workgroup"] < order["memref.load global"]
    assert order["memref.load global"] < order["memref.load workgroup"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(staged(3), f"smem-limit={2 * BYTES - 1}", id="no room for two versions"),
        pytest.param(
            staged(3)
            .replace("{llvm.noalias})", f"{{llvm.noalias}}, %s: {TILE})")
            .replace(f"%s = memref.alloc() : {TILE}", ""),
            "",
            id="a tile of the caller's",
        ),
        pytest.param(
            staged(3, between=f"%old = memref.load %s[%t] : {TILE}").replace(
                "memref.store %w", "%z = arith.addf %w, %old : f32\n    memref.store %z"
            ),
            "",
            id="a store of what the tile holds",
        ),
        pytest.param(
            staged(3, more=', async_pipe.epilogue = "predicate"'), "", id="a guarded epilogue"
        ),
    ],
)  # fmt: skip
def test_where_it_cannot_be_planned_the_store_stays(text: str, options: str) -> None:
    assert places(text, options)["memref.store workgroup"][0] == 2


LAST = f"""%last = memref.load %s[%other] : {TILE}
  memref.store %last, %C[%c0, %t] : memref<?x32xf32>"""


@pytest.mark.parametrize("rows", [1, 2, 3, ROWS])
@pytest.mark.parametrize("stages", [3, 4])
@pytest.mark.parametrize("after", ["", LAST])
def test_the_pipelined_loop_is_right_with_one_barrier_and_two_versions(stages, rows, after) -> None:
    """Also where the last tile is read after the loop."""
    given = np.arange(rows * 32, dtype=np.float32).reshape(rows, 32)
    wanted = 2 * given[:, ::-1]
    wanted = np.concatenate([wanted[-1:], wanted[1:]]) if after else wanted
    with new_context():
        module = ir.Module.parse(staged(stages, after=after))
        report = pipeline(module, "rocdl:gfx942")
        (loop,) = report.of("loops")
        assert [buffer.versions for buffer in loop.buffers] == [2]
        kernel = next(op for op in walk(module.operation) if op.name == "scf.for")
        assert sum(op.name == "gpu.barrier" for op in walk(kernel)) == 1
        result = machine.run(module, "f", [given, given * 0], threads=32)
    assert not result.races
    np.testing.assert_array_equal(result.arrays[1], wanted)


def test_a_loop_whose_copies_have_no_room_takes_two_versions_where_they_fit() -> None:
    """Three versions do not fit: the loads go through registers, and the tile has two."""
    text = staged(3).replace("%w = arith.addf %v, %v : f32", "").replace("%w, %s", "%v, %s")
    text = text.replace(', async_pipe.stage_through = "registers"', "")
    versions = {}
    for limit in (3 * BYTES, 2 * BYTES, BYTES):
        with new_context():
            module = ir.Module.parse(text)
            found = passes.find("async-pipe")
            session = Session()
            options = passes.parse_options(found, f"smem-limit={limit}")
            found.run(module.operation, options, session)
            (loop,) = session.report().of("loops")
            versions[limit] = [buffer.versions for buffer in loop.buffers]
    assert versions == {3 * BYTES: [3], 2 * BYTES: [2], BYTES: [1]}
