"""What other tools emit without a word, and the checker names.

Upstream's transform.nvgpu.pipeline_shared_memory_copies takes any loop of copies: with too few
buffers, or without the barriers that several warps need, its output races. RFC 0077's
three-stage example (two versions of B) races, and so do the first two iterations of its
interleaved one (prologue groups hold both copies, the kernel's one each).

Covers: checker/check_pass.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import Checked, check_text, machine_races
from mlir_async_pipe.bindings import BindingsError, ir, load, new_context

SHARED = "memref<{versions}x32xf32, #gpu.address_space<workgroup>>"


def copy_loop(versions: int, *, threads: int, barrier: bool) -> str:
    """A loop of copies and uses, and a transform script that pipelines it three deep."""
    shared = SHARED.format(versions=versions)
    wait = "nvgpu.device_async_wait %g" + ("\n      gpu.barrier" if barrier else "")
    other = "%u" if threads > 1 else "%t"
    return f"""
module attributes {{transform.with_named_sequence}} {{
  func.func @copies(%A: memref<8x32xf32> {{llvm.noalias}}, %C: memref<8x32xf32> {{llvm.noalias}})
      attributes {{gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %last = arith.constant {threads - 1} : index
    %versions = arith.constant {versions} : index
    %t = gpu.thread_id x
    %u = arith.subi %last, %t : index
    %s = memref.alloc() : {shared}
    scf.for %i = %c0 to %c8 step %c1 {{
      %slot = arith.remui %i, %versions : index
      %a = nvgpu.device_async_copy %A[%i, %t], %s[%slot, %t], 1 : memref<8x32xf32> to {shared}
      %g = nvgpu.device_async_create_group %a
      {wait}
      %v = memref.load %s[%slot, {other}] : {shared}
      memref.store %v, %C[%i, %t] : memref<8x32xf32>
    }}
    return
  }}
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    %loop = transform.structured.match ops{{["scf.for"]}} in %root : (!transform.any_op) -> !transform.any_op
    %done = transform.nvgpu.pipeline_shared_memory_copies failures(propagate) %loop {{depth = 3}} : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""


def upstream_output(text: str) -> str:
    """The function after upstream's transform; skips where the bindings do not have it."""
    with new_context():
        try:
            manager = load("passmanager").PassManager
            pipeline = manager.parse("builtin.module(transform-interpreter)")
        except (BindingsError, ValueError) as error:
            pytest.skip(f"no transform interpreter in these bindings: {error}")
        module = ir.Module.parse(text)
        pipeline.run(module.operation)
        function = next(op for op in module.body.operations if op.operation.name == "func.func")
        return str(function)


def codes(checked: Checked) -> set[str]:
    return {code for code, _ in checked.unsafe}


def agreed(text: str) -> Checked:
    """What the checker says, when the machine says the same."""
    checked = check_text(text, "nvvm:sm_80")
    raced = machine_races(text, "nvvm:sm_80")
    assert raced <= checked.unsafe
    assert {place for _, place in checked.unsafe} == {place for _, place in raced}
    assert not checked.unknown
    return checked


def test_upstream_on_a_single_buffered_loop_overwrites_what_is_in_flight() -> None:
    output = upstream_output(copy_loop(1, threads=1, barrier=False))
    assert codes(agreed(output)) == {"overwrite-in-flight", "read-in-flight"}


def test_upstream_with_two_buffers_for_three_copies_in_flight_is_unsafe() -> None:
    output = upstream_output(copy_loop(2, threads=1, barrier=False))
    assert codes(agreed(output)) == {"overwrite-in-flight", "read-in-flight"}


def test_upstream_with_three_buffers_and_one_thread_is_safe() -> None:
    output = upstream_output(copy_loop(3, threads=1, barrier=False))
    assert not agreed(output).unsafe


def test_upstream_lets_the_next_copy_overtake_the_reads_of_other_warps() -> None:
    output = upstream_output(copy_loop(3, threads=32, barrier=True))
    assert codes(agreed(output)) == {"missing-barrier"}


def test_upstream_with_four_buffers_is_safe_between_threads() -> None:
    output = upstream_output(copy_loop(4, threads=32, barrier=True))
    assert not agreed(output).unsafe


COPY = """    "async_pipe.scope"() ({{
      %a = memref.load %{source}[{at}] : memref<{length}xf32>
      %b = arith.addf %a, %one : f32
      memref.store %b, %{target}[{slot}] : memref<{versions}xf32>
      "async_pipe.yield"() : () -> ()
    }}) {{queue = {queue} : i64}} : () -> ()
"""


def copy(
    source: str, at: str, length: int, target: str, slot: str, versions: int, queue: int
) -> str:
    return COPY.format(
        source=source,
        at=at,
        length=length,
        target=target,
        slot=slot,
        versions=versions,
        queue=queue,
    )


def commit(queue: int) -> str:
    return f'    %g{{n}} = "async_pipe.commit_queue"() {{{{queue = {queue} : i64}}}} : () -> !nvgpu.device.async.token\n'


def wait(queue: int, count: int) -> str:
    return f'    "async_pipe.wait_queue"() {{queue = {queue} : i64, count = {count} : i64}} : () -> ()\n'


def numbered(lines: list[str]) -> str:
    """The lines with every commit given a name of its own."""
    return "".join(
        line.replace("{n}", str(i)).replace("{{", "{").replace("}}", "}")
        if "commit_queue" in line
        else line
        for i, line in enumerate(lines)
    )


HEAD = """
func.func @rfc(%A: memref<32xf32> {llvm.noalias}, %E: memref<32xf32> {llvm.noalias},
               %D: memref<32xf32> {llvm.noalias}) attributes {gpu.known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c13 = arith.constant 13 : index
    %c14 = arith.constant 14 : index
    %one = arith.constant 1.0 : f32
"""


def three_stages(versions: int) -> str:
    """RFC 0077's three stages, the first two async, B with `versions` versions and C with two."""
    lines = [
        HEAD,
        f"    %vb = arith.constant {versions} : index\n",
        f"    %B = memref.alloca() : memref<{versions}xf32>\n    %C = memref.alloca() : memref<2xf32>\n",
        copy("A", "%c0", 32, "B", "%c0", versions, 0),
        commit(0),
        copy("A", "%c1", 32, "B", "%c1", versions, 0),
        commit(0),
        wait(0, 1),
        copy("B", "%c0", versions, "C", "%c0", 2, 1),
        commit(1),
        "    scf.for %i = %c0 to %c14 step %c1 {\n",
        "    %i1 = arith.addi %i, %c1 : index\n    %i2 = arith.addi %i, %c2 : index\n",
        "    %b2 = arith.remui %i2, %vb : index\n    %b1 = arith.remui %i1, %vb : index\n",
        "    %k1 = arith.remui %i1, %c2 : index\n    %k0 = arith.remui %i, %c2 : index\n",
        copy("A", "%i2", 32, "B", "%b2", versions, 0),
        commit(0),
        wait(0, 1),
        copy("B", "%b1", versions, "C", "%k1", 2, 1),
        commit(1),
        wait(1, 1),
        "    %x = memref.load %C[%k0] : memref<2xf32>\n",
        "    memref.store %x, %D[%i] : memref<32xf32>\n    }\n",
        wait(0, 0),
        wait(1, 0),
        "    return\n}\n",
    ]
    return numbered(lines)


def interleaved(count: int) -> str:
    """RFC 0077's interleaved producers: joint groups ahead of the loop, one each inside."""
    lines = [
        HEAD,
        "    %P = memref.alloca() : memref<4xf32>\n    %Q = memref.alloca() : memref<4xf32>\n",
    ]
    for p in range(3):
        lines += [
            copy("A", f"%c{p}", 32, "P", f"%c{p}", 4, 0),
            copy("E", f"%c{p}", 32, "Q", f"%c{p}", 4, 0),
            commit(0),
        ]
    lines += [
        "    scf.for %i = %c0 to %c13 step %c1 {\n",
        "    %i3 = arith.addi %i, %c3 : index\n",
        "    %w = arith.remui %i3, %c4 : index\n    %r = arith.remui %i, %c4 : index\n",
        copy("A", "%i3", 32, "P", "%w", 4, 0),
        commit(0),
        wait(0, count),
        "    %x = memref.load %P[%r] : memref<4xf32>\n    %y = memref.load %Q[%r] : memref<4xf32>\n",
        "    %z = arith.addf %x, %y : f32\n    memref.store %z, %D[%i] : memref<32xf32>\n",
        copy("E", "%i3", 32, "Q", "%w", 4, 0),
        commit(0),
        "    }\n",
        wait(0, 0),
        "    return\n}\n",
    ]
    return numbered(lines)


def rfc(text: str) -> Checked:
    """The checker without a target: every queue is a FIFO of its own, as in the RFC.

    The machine names scopes, the checker the accesses in them: codes are compared.
    """
    checked = check_text(text)
    assert codes(checked) == {code for code, _ in machine_races(text)}
    assert not checked.unknown
    return checked


def test_three_stages_of_the_rfc_overwrite_a_version_that_is_still_being_read() -> None:
    assert codes(rfc(three_stages(2))) == {"source-overwritten"}


def test_three_stages_with_three_versions_are_safe() -> None:
    assert not rfc(three_stages(3)).unsafe


def test_interleaved_producers_of_the_rfc_read_too_early() -> None:
    checked = rfc(interleaved(5))
    # What is read too early is overwritten too early as well, four iterations later.
    assert codes(checked) == {"read-in-flight", "overwrite-in-flight"}
    # The first iteration needs prologue group 0 of 3, with one group committed since.
    counts = {h.count for h in checked.report.of("hazards") if h.code == "read-in-flight"}
    assert min(c for c in counts if c is not None) == 3


def test_interleaved_producers_with_count_three_are_safe() -> None:
    assert not rfc(interleaved(3)).unsafe
