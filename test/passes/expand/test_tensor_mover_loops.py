"""Loops of the tensor data mover, pipelined: right for each trip count, proven, and with counts for one wave.

Covers: pipeliner/expand/write/versioned_buffers.py, pipeliner/dependence/distance.py, pipeliner/dependence/privatise.py, pipeliner/plan/buffer_plan.py, lowering/rocdl/to_rocdl.py
"""

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.tensor_mover_loops import COLUMNS, GFX1250, MATRIX, TILE, WHO, expected, loop, run
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import given_count, row_of

TARGET = "rocdl:gfx1250"


def pipelined(text: str):
    module = ir.Module.parse(text, new_context())
    pipeline(module, target=TARGET)
    return module


def lowered(module, **options):
    found = passes.find("async-pipe-to-rocdl")
    asked = found.options(chip="gfx1250", **options)
    found.run(module.operation, asked, Session(target=GFX1250))
    return module


def waits(module) -> list[tuple[str, int | None]]:
    """The waits of the pipeline: those before the loop that stays for short trips."""
    found = [op for op in walk(module.operation) if row_of(op).wait is not None]
    return [(op.name, given_count(op)) for op in found]


@pytest.mark.parametrize("stages", (2, 3, 4))
@pytest.mark.parametrize("who", WHO)
def test_each_trip_count_gives_the_sum_and_no_race(who, stages):
    module = pipelined(loop(who, stages))
    for trips in (0, 1, stages - 1, stages, 7):
        result = run(module, trips, completion="late")
        assert result.race_codes == set()
        np.testing.assert_array_equal(result.arrays[1], expected(trips))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tiles", (1, 2))
def test_copies_may_arrive_when_they_like(tiles, seed):
    module = pipelined(loop("wave", 3, tiles))
    result = run(module, 5, completion=f"random:{seed}")
    assert result.race_codes == set()
    np.testing.assert_array_equal(result.arrays[1], expected(5, tiles))


@pytest.mark.parametrize(
    ("who", "stages", "tiles", "counts"),
    [
        # One copy an iteration: S - 2 stay in flight in the kernel, and fewer in each step after it.
        ("wave", 2, 1, [0, 0]),
        ("wave", 3, 1, [1, 1, 0]),
        ("wave", 4, 1, [2, 2, 1, 0]),
        ("thread", 3, 1, [1, 1, 0]),
        # Two copies an iteration by one wave: the counter counts both.
        ("wave", 3, 2, [2, 2, 0]),
        ("subgroup", 4, 2, [4, 4, 2, 0]),
    ],
)
def test_a_wave_that_copies_alone_waits_by_its_counter(who, stages, tiles, counts):
    module = lowered(pipelined(loop(who, stages, tiles)))
    assert waits(module)[: len(counts)] == [("rocdl.s.wait.tensorcnt", n) for n in counts]
    checked = check_module(module, TARGET)
    assert not checked.unsafe
    assert not checked.unknown


def test_waves_that_all_copy_wait_by_marks_or_by_the_counter():
    marks = lowered(pipelined(loop("all", 3, 2)))
    assert waits(marks)[:3] == [("rocdl.wait.asyncmark", n) for n in (1, 1, 0)]
    counter = lowered(pipelined(loop("all", 3, 2)), waits="counter")
    assert waits(counter)[:3] == [("rocdl.s.wait.tensorcnt", n) for n in (2, 2, 0)]
    for module in (marks, counter):
        assert not check_module(module, TARGET).unsafe
        result = run(module, 5, completion="late")
        assert result.race_codes == set()


@pytest.mark.parametrize("who", ("wave", "all"))
def test_one_more_in_flight_is_a_race(who):
    """The first wait of the kernel, raised by one: the machine and the checker find it."""
    module = lowered(pipelined(loop(who, 3)), waits="counter")
    wait = next(op for op in walk(module.operation) if row_of(op).wait is not None)
    wait.attributes["count"] = ir.IntegerAttr.get(
        ir.IntegerType.get_signless(16, module.context), 2
    )
    assert check_module(module, TARGET).unsafe
    assert "read-in-flight" in run(module, 5, completion="late").race_codes


def test_a_barrier_tells_the_other_waves():
    """Without the barriers of the pipeline other waves read what only the first one has waited for."""
    module = pipelined(loop("wave", 3))
    for op in [op for op in walk(module.operation) if op.name == "gpu.barrier"]:
        op.erase()
    codes = {code for code, _ in check_module(module, TARGET).unsafe}
    assert codes >= {"not-visible", "missing-barrier"}
    assert run(module, 5, completion="late").race_codes & codes


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("roles", ["specialised", "alternating", "ping-pong"])
def test_no_wave_gets_a_role_of_its_own(who, roles):
    """No registers would go from the wave that copies to those that compute (docs/targets.md)."""
    with pytest.raises(PipelineError) as refused:
        pipelined(loop(who, attributes=f'async_pipe.roles = "{roles}"'))
    assert refused.value.code == "roles-unsupported"
    assert refused.value.diagnostic.place.line == 1 + next(
        n for n, line in enumerate(loop(who).split("\n")) if "scf.for" in line
    )


def test_half_of_the_rows_make_no_private_buffer():
    """The first wave alone copies its own eight rows: the others read what was written before the loop."""
    text = loop("rows", 3)
    filled = f"""%some = arith.constant dense<1.0> : vector<16xf16>
    vector.store %some, %tile0[%row, %column] : {TILE}, vector<16xf16>
    gpu.barrier
    %r = scf.for"""
    text = text.replace("%r = scf.for", filled)
    start = text.index("        amdgpu.tensor_load_to_lds")
    end = text.index("\n", start)
    copy = text[start:end]
    text = text.replace(copy, f"scf.if %first_wave {{\n{copy}\n}}")
    with pytest.raises(PipelineError) as refused:
        pipelined(text)
    assert refused.value.code == "not-privatisable"


def test_a_descriptor_from_before_the_loop_cannot_take_a_slot():
    text = loop("all", 3).replace("%k]", "%c0]")
    lines = text.split("\n")
    first = next(n for n, line in enumerate(lines) if "%d0_base =" in line)
    top = next(n for n, line in enumerate(lines) if "scf.for" in line)
    made, rest = lines[first : first + 3], lines[:first] + lines[first + 3 :]
    with pytest.raises(PipelineError) as refused:
        pipelined("\n".join([*rest[:top], *made, *rest[top:]]))
    assert refused.value.code == "buffer-not-versionable"
    assert "describes it to 'amdgpu.tensor_load_to_lds' before the loop" in str(refused.value)


STORED = f"""
module attributes {{gpu.container_module}} {{
gpu.module @kernels {{
  gpu.func @double(%src: {MATRIX} {{llvm.noalias}}, %dst: {MATRIX} {{llvm.noalias}}, %n: index)
      workgroup(%in: {TILE}, %to: {TILE}) kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %quarter = arith.remui %t, %c4 : index
    %column = arith.muli %quarter, %c16 : index
    %first_wave = arith.cmpi ult, %t, %c32 : index
    scf.for %k = %c0 to %n step %c64 {{
      %a = amdgpu.make_dma_base %src[%c0, %k], %in[%c0, %c0] : {MATRIX}, {TILE} -> !amdgpu.tdm_base<f16>
      %load = amdgpu.make_dma_descriptor %a globalSize [32, 64] globalStride [{COLUMNS}, 1] sharedSize [32, 64]
        : !amdgpu.tdm_base<f16> -> !amdgpu.tdm_descriptor
      scf.if %first_wave {{
        amdgpu.tensor_load_to_lds %load : !amdgpu.tdm_descriptor
      }}
      rocdl.s.wait.tensorcnt 0
      gpu.barrier
      %v = vector.load %in[%row, %column] : {TILE}, vector<16xf16>
      %w = arith.addf %v, %v : vector<16xf16>
      vector.store %w, %to[%row, %column] : {TILE}, vector<16xf16>
      gpu.barrier
      %b = amdgpu.make_dma_base %dst[%c0, %k], %to[%c0, %c0] : {MATRIX}, {TILE} -> !amdgpu.tdm_base<f16>
      %store = amdgpu.make_dma_descriptor %b globalSize [32, 64] globalStride [{COLUMNS}, 1] sharedSize [32, 64]
        : !amdgpu.tdm_base<f16> -> !amdgpu.tdm_descriptor
      scf.if %first_wave {{
        amdgpu.tensor_store_from_lds %store : !amdgpu.tdm_descriptor
      }}
      rocdl.s.wait.tensorcnt 0
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}
}}"""


def test_stores_from_lds_stay_in_flight_until_their_tile_is_written_again():
    """Three versions of the tile that is stored: the wait for the next load covers the store before it."""
    module = lowered(pipelined(STORED))
    kernel = [wait for wait in waits(module) if wait[1]]
    assert kernel[0] == ("rocdl.s.wait.tensorcnt", 1)
    checked = check_module(module, TARGET)
    assert not checked.unsafe
    assert not checked.unknown
    source = (np.arange(32 * COLUMNS) % 97).astype(np.float16).reshape(32, COLUMNS)
    for trips in (0, 1, 2, 3, 6):
        arrays = [source, np.zeros_like(source), 64 * trips]
        result = machine.run(module, None, arrays, threads=128, target=GFX1250, completion="late")
        assert result.race_codes == set()
        wanted = np.zeros_like(source)
        wanted[:, : 64 * trips] = 2 * source[:, : 64 * trips]
        np.testing.assert_array_equal(result.arrays[1], wanted)
