"""`async-pipe` as single steps, as timing, dumps and code beside a check ask for, is `async-pipe`.

Covers: tool/pass_steps.py, pipeliner/async_pipe_pass.py, pipeliner/normalise/normalise_pass.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import pipeline_text
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool import pass_steps

# The loop reads row 1, which none of its iterations writes, so that it has no versions.
KERNEL = """
gpu.module @m {
  gpu.func @k(%rows: memref<?x64xf32> {llvm.noalias}, %out: memref<64xf32> {llvm.noalias}, %n: index)
      workgroup(%tile: memref<2x64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    memref.store %zero, %tile[%c1, %t] : memref<2x64xf32, #gpu.address_space<workgroup>>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (f32) {
      %v = memref.load %rows[%i, %t] : memref<?x64xf32>
      memref.store %v, %tile[%c0, %t] : memref<2x64xf32, #gpu.address_space<workgroup>>
      %x = memref.load %tile[%c0, %t] : memref<2x64xf32, #gpu.address_space<workgroup>>
      %y = memref.load %tile[%c1, %t] : memref<2x64xf32, #gpu.address_space<workgroup>>
      %s = arith.addf %sum, %x : f32
      %next = arith.addf %s, %y : f32
      scf.yield %next : f32
    } {ATTRIBUTES}
    memref.store %r, %out[%t] : memref<64xf32>
    gpu.return
  }
}"""


def piped(attributes: str, *, single: bool, said: Session | None = None) -> tuple[str, list[str]]:
    """What `async-pipe` makes of the kernel, and the codes of what it says."""
    session = said or Session()
    with new_context() as context:
        module = ir.Module.parse(KERNEL.replace("{ATTRIBUTES}", attributes))
        pipeline = pipeline_text.parse("builtin.module(async-pipe{chip=sm_80})")
        pass_steps.run(module, pass_steps.make(pipeline, context, {}, single=single), session)
        return str(module), [item.code for item in session.diagnostics.items]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [("{async_pipe.num_stages = 2}", "through-registers"), ("", "no-annotated-loops")],
)
def test_single_steps_make_and_say_the_same(attributes: str, code: str) -> None:
    made = piped(attributes, single=True)
    assert code in made[1]
    assert made == piped(attributes, single=False)


def test_of_a_misspelt_annotation_nothing_else_is_reported() -> None:
    with pytest.raises(InputError, match=r"did you mean 'async_pipe\.num_stages'"):
        piped("{async_pipe.num_stage = 2}", single=False, said=(said := Session()))
    assert said.diagnostics.items == []


@pytest.mark.parametrize("single", [False, True])
def test_what_cannot_fall_back_is_refused(single: bool) -> None:
    attributes = '{async_pipe.num_stages = 2, async_pipe.stage_through = "async"}'
    with pytest.raises(PipelineError, match="may read what its iteration did not write"):
        piped(attributes, single=single)
