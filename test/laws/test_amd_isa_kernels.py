"""AMD's assembly of whole kernels, run lane by lane: IREE's products, attention, kernels that spill, each matrix instruction.

Covers: lowering/rocdl/rocdl_code.py, lowering/rocdl/to_rocdl.py, examples/attention_tiles.py, test/helpers/amd_isa
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import mlir_async_pipe
from helpers.amd_isa.arrays import run_arrays, survivors
from helpers.amd_isa.judge import judge, weakened
from helpers.amd_isa.kernels import (
    LANES,
    PRODUCTS,
    Kernel,
    expected,
    inputs_of,
    random_kernel,
    text_of,
)
from helpers.amd_isa.program import Program, parse
from helpers.heads_by_numpy import numbers_of
from helpers.paths import ROOT
from mlir_async_pipe import annotate, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk_named
from mlir_async_pipe.lowering.lower import Lowered

sys.path.insert(0, str(ROOT / "examples"))
from amd_matrix_chips import MATRIX_CHIPS
from generate_attention import KEYS, Attention
from generate_backward import Backward, Chain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("flydsl") is None, reason="needs the AMDGPU back end of flydsl"
    ),
]

SHAPES = [
    (chip, kind, shape)
    for chip, kinds in PRODUCTS.items()
    for kind, shapes in kinds.items()
    for shape in shapes
]


def kernel_of(chip: str, kind: str, shape: tuple[int, int, int]) -> Kernel:
    """A kernel with sums of products of two tiles over five iterations, 16 bytes a lane."""
    made = replace(random_kernel(chip, 1), stages=3, trips=5, dynamic=False, width=4, waves=2)
    made = replace(made, tiles=2, groups=1, outer=1, carried=True, rows=1, masked=False, mover="")
    return replace(made, apart=False, buffers=False, product=kind, shape=shape)


@pytest.mark.parametrize(("chip", "kind", "shape"), SHAPES, ids=str)
def test_each_product_is_right_and_weaker_waits_are_not(
    chip: str, kind: str, shape: tuple[int, int, int]
) -> None:
    verdict = judge(kernel_of(chip, kind, shape), mutants=True)
    assert (verdict.wrong, verdict.missed) == (None, ())
    assert verdict.mutants > verdict.without_effect


@pytest.mark.parametrize(
    ("chip", "kind", "shape"), [each for each in SHAPES if each[1] != "bf16"], ids=str
)
def test_the_machine_has_the_same_layouts(
    chip: str, kind: str, shape: tuple[int, int, int]
) -> None:
    """The judge's numbers and those of the package's machine, which share no module."""
    k = kernel_of(chip, kind, shape)
    a, c = inputs_of(k)
    with new_context():
        module = ir.Module.parse(text_of(k))
        arrays = [a.view(np.int32), c.view(np.int32), np.zeros(k.length, np.int32)]
        found = machine.run(
            module, "k", [*arrays, k.trips, k.limit], threads=k.threads, target=f"rocdl:{chip}"
        )
    assert np.array_equal(found.arrays[2].view(np.uint32), expected(k, k.trips, a, c))


def compiled(text: str, chip: str, *, annotated: bool) -> tuple[Lowered, Program, list[int]]:
    """Code of a kernel, its program for the judge, and the count of each wait."""
    with new_context():
        module = ir.Module.parse(text)
        for loop in walk_named(module.operation, "scf.for".__eq__) if not annotated else ():
            annotate(loop, num_stages=3)
        report = mlir_async_pipe.pipeline(module, target=f"rocdl:{chip}")
        code = mlir_async_pipe.lower(module, target=f"rocdl:{chip}", emit="isa")
    return code, parse(code.text), [wait.count for wait in report.of("waits")]


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("gfx950_matmul", "ds_read_b64_tr_b16"), ("gfx942_matmul_transposed", "buffer_load_dwordx4")],
)
def test_products_of_iree_are_right_and_weaker_waits_are_not(name: str, instruction: str) -> None:
    """A product of halves with all of it: buffers with bounds, transposed reads of LDS, sums of matrices."""
    text = (ROOT / "examples" / "iree" / "kernels" / f"{name}.mlir").read_text()
    code, program, counts = compiled(text, name.partition("_")[0], annotated=False)
    assert instruction in code.text and "v_mfma" in code.text and "buffer_store" in code.text
    turned = "transposed" in name
    numbers = np.random.default_rng(7)
    a = numbers.integers(-3, 4, (64, 1024)).astype(np.float16)
    b = numbers.integers(-3, 4, (64, 1024) if turned else (1024, 64)).astype(np.float16)
    arrays = [a, b, np.zeros((64, 64), np.float32)]
    wanted = a.astype(np.float32) @ (b.T if turned else b).astype(np.float32)
    for late, backward in ((True, False), (True, True), (False, False)):
        after, found = run_arrays(program, arrays, 256, late=late, backward=backward)
        assert np.array_equal(after[2], wanted)
    # Each wave copies, in each of the loop's iterations, a group.
    group = found.copies // (4 * 8)
    if counts:
        assert group > 0
    assert list(survivors(program, [count * group for count in counts], arrays, 256)) == []


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", [Attention, Backward, Chain])
def test_loops_of_several_products_are_right_and_weaker_waits_are_not(
    kind: type[Attention], chip: str
) -> None:
    """The first block of them, of five tiles of keys, by `async_pipe.schedule = "optimal"`."""
    made = kind(chip=chip)
    stages = f"async_pipe.num_stages = {made.stages} : i64"
    text = made.module().replace(stages, 'async_pipe.schedule = "optimal"')
    _, program, counts = compiled(text, chip, annotated=True)
    numbers = numbers_of(made.name, 5 * KEYS)
    for late, backward in ((True, False), (True, True), (False, False)):
        after, _ = run_arrays(program, numbers.arguments, 256, late=late, backward=backward)
        assert numbers.is_right(after[numbers.result], made.rows)
    # Copies of a wave to a tile of K or of V.
    group = KEYS * 64 * 2 // (256 * MATRIX_CHIPS[chip].copy_bytes)
    allowed = [count * group for count in counts]
    passed = dict(survivors(program, allowed, numbers.arguments, 256))
    assert not any(passed.values())
    # All but that of the loop for short trips, which does not run.
    assert len(list(weakened(program, allowed))) - len(passed) >= 3


SUMS, TRIPS, THREADS = 36, 4, 1024
TILE = 4 * THREADS
_ROW, _GLOBAL, _WG = "vector<4xi32>", "#gpu.address_space<global>", "#gpu.address_space<workgroup>"


def spilled() -> str:
    """A loop that carries more sums than a thread of such a block has registers."""
    numbers = range(SUMS)
    carried = ", ".join(f"%s{n} = %zero" for n in numbers)
    kinds = ", ".join([_ROW] * SUMS)
    added = "\n".join(
        f"""%c_{n} = arith.constant dense<{n * n + 1}> : {_ROW}
        %x{n} = arith.xori %v, %c_{n} : {_ROW}
        %y{n} = arith.addi %s{n}, %x{n} : {_ROW}"""
        for n in numbers
    )
    result = f"memref<{SUMS * TILE}xi32, {_GLOBAL}>"
    stored = "\n".join(
        f"""%p{n} = arith.constant {n * TILE} : index
        %q{n} = arith.addi %mine, %p{n} : index
        vector.store %r#{n}, %B[%q{n}] : {result}, {_ROW}"""
        for n in numbers
    )
    source, tile = f"memref<{TRIPS * TILE}xi32, {_GLOBAL}>", f"memref<{TILE}xi32, {_WG}>"
    given = "llvm.align = 16 : i64, llvm.noalias"
    return f"""gpu.module @m {{ gpu.func @k(%A: {source} {{{given}}}, %B: {result} {{{given}}})
      workgroup(%t: {tile} {{llvm.align = 16 : i64}}) kernel
      attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %n = arith.constant {TILE} : index
      %end = arith.constant {TRIPS * TILE} : index
      %zero = arith.constant dense<0> : {_ROW}
      %tid = gpu.thread_id x
      %other = arith.xori %tid, %c1 : index
      %mine = arith.muli %tid, %c4 : index
      %theirs = arith.muli %other, %c4 : index
      %r:{SUMS} = scf.for %k = %c0 to %end step %n iter_args({carried}) -> ({kinds}) {{
        %at = arith.addi %k, %mine : index
        %copy = nvgpu.device_async_copy %A[%at], %t[%mine], 4 : {source} to {tile}
        %g = nvgpu.device_async_create_group %copy
        nvgpu.device_async_wait %g
        gpu.barrier
        %v = vector.load %t[%theirs] : {tile}, {_ROW}
        {added}
        gpu.barrier
        scf.yield {", ".join(f"%y{n}" for n in numbers)} : {kinds}
      }} {{async_pipe.num_stages = 3 : i64}}
      {stored}
      gpu.return }} }}"""


@pytest.mark.parametrize("chip", ["gfx942", "gfx950", "gfx1250"])
def test_what_spills_is_right_and_weaker_waits_are_not(chip: str) -> None:
    """On gfx9 vmcnt counts what is spilled and loaded back, with the copies, in order: where a load of a spilled value is
    waited for, all older copies have landed, and a wait before it may be weaker."""
    code, program, counts = compiled(spilled(), chip, annotated=True)
    (kernel,) = code.kernels
    (said,) = [entry.message for entry in code.diagnostics if entry.code == "spills"]
    assert re.search(r"[1-9]\d* loads of them are in loops", said)
    assert kernel.vector_spills > 30 and kernel.scratch_bytes > 100
    assert len(re.findall(r"scratch_(?:load|store)", code.text)) > 60
    source = np.random.default_rng(3).integers(0, 1 << 32, TRIPS * TILE, np.uint32)
    arrays = [source, np.zeros((SUMS, THREADS, 4), np.uint32)]
    theirs = source.reshape(TRIPS, THREADS, 4)[:, np.arange(THREADS) ^ 1]
    wanted = [(theirs ^ np.uint32(n * n + 1)).sum(0, dtype=np.uint32) for n in range(SUMS)]
    after, found = run_arrays(program, arrays, THREADS, late=True)
    assert np.array_equal(after[1], np.stack(wanted))
    group = found.copies // (THREADS // LANES[chip] * TRIPS)
    allowed = [count * group for count in counts]
    left = [place for place, _ in survivors(program, allowed, arrays, THREADS)]
    assert len(left) < len(weakened(program, allowed))
    for place in left:
        after = code.text.splitlines()[int(place.removeprefix("line ")) :]
        waits = [line for line in after if "s_waitcnt" in line or "ds_read" in line]
        assert "vmcnt(0)" in waits[0]
