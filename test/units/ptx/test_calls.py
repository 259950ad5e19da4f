"""Functions of PTX files: where they are called they stand with their instructions, and compute the same; what
cannot be followed may do anything, at its line.

Covers: ptx/calls.py, ptx/syntax.py, ptx/raise_ptx.py, ptx/instructions.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.ptx_machine import Array, PtxFault, launch, parse
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.ptx import calls
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import InputError

THREADS = 64
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = """\
.visible .entry k(.param .u64 from, .param .u64 to)
.reqntid 64, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;
  .shared .align 16 .b8 tile[512];
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [to];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d1, %d3;
  add.s64 %d5, %d2, %d3;
{}
  ret;
}}
"""
# What nvcc writes of `uint32_t at(const uint32_t* x, uint32_t i) { return i > 40 ? 7 : x[i] + i; }`.
AT = """\
.func (.param .b32 func_retval0) at(.param .b64 at_param_0, .param .b32 at_param_1)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [at_param_0];
  ld.param.u32 %r1, [at_param_1];
  setp.lt.u32 %p1, %r1, 41;
  mov.u32 %r4, 7;
  @!%p1 bra $L__BB0_2;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d1, %d3;
  ld.u32 %r3, [%d4];
  add.u32 %r4, %r3, %r1;
$L__BB0_2:
  st.param.b32 [func_retval0+0], %r4;
  ret;
}
"""
CALL = """\
  {{
  .param .b64 param0;
  st.param.b64 [param0+0], {pointer};
  .param .b32 param1;
  st.param.b32 [param1+0], {index};
  .param .b32 retval0;
  {guard}call.uni (retval0), {name}, (param0, param1);
  ld.param.b32 {result}, [retval0+0];
  }}
"""


def call(name: str = "at", index: str = "%r1", result: str = "%r9", guard: str = "") -> str:
    return CALL.format(pointer="%d1", index=index, result=result, guard=guard, name=name)


STORE = "  st.global.u32 [%d5], %r9;"
# It ends where a condition holds, calls another one, and has a table of labels and memory of its own.
TWICE = """\
.func (.param .b32 out) twice(.param .b64 x, .param .b32 i)
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<5>;
  .local .align 4 .b8 depot[8];
  ld.param.u64 %d1, [x];
  ld.param.u32 %r1, [i];
  mov.u64 %d2, depot;
  cvta.local.u64 %d2, %d2;
  setp.gt.u32 %p1, %r1, 50;
  st.param.b32 [out], %r1;
  @%p1 ret;
""" + call(result="%r2") + """\
  st.u32 [%d2+4], %r2;
  and.b32 %r3, %r1, 1;
$table: .branchtargets $even, $odd;
  brx.idx %r3, $table;
$even:
  ld.u32 %r4, [%d2+4];
  add.u32 %r4, %r4, %r2;
  st.param.b32 [out], %r4;
  ret;
$odd:
  st.param.b32 [out], %r2;
  ret;
}
"""  # fmt: skip
# Parameters in registers, as people write them.
IN_REGISTERS = """\
.func (.reg .b32 out) more(.reg .b32 a, .reg .b32 b)
{
  .reg .b32 %r<3>;
  mad.lo.u32 out, a, 3, b;
  ret;
}
"""
PAIR = """\
.func (.param .align 4 .b8 out[8]) pair(.param .align 4 .b8 in[8])
{
  .reg .b32 %r<5>;
  ld.param.v2.b32 {%r1, %r2}, [in+0];
  st.param.b32 [out+0], %r2;
  st.param.b32 [out+4], %r1;
  ret;
}
"""
OF_PAIRS = """\
  { .param .align 4 .b8 p[8]; .param .align 4 .b8 q[8];
  st.param.b32 [p+0], %r1; st.param.b32 [p+4], 5;
  call.uni (q), pair, (p);
  ld.param.v2.b32 {%r8, %r9}, [q+0]; }
  ld.global.u32 %r7, [%d4];
  mad.lo.u32 %r8, %r8, 256, %r7;
  add.u32 %r9, %r9, %r8;
"""
WORDS = np.random.default_rng(3).integers(0, 1000, THREADS, dtype=np.uint32)

PROGRAMS = {
    "one call": (AT, call() + STORE),
    "two calls": (AT, call() + call(index="5", result="%r8") + "  add.u32 %r9, %r9, %r8;\n" + STORE),
    "in a loop": (
        AT,
        "  mov.u32 %r7, 0; mov.u32 %r6, 0;\n$again:\n" + call(index="%r6")
        + "  add.u32 %r7, %r7, %r9; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 5; @%p1 bra $again;\n"
        + "  add.u32 %r9, %r7, %r1;\n" + STORE,
    ),
    "nested": (AT + TWICE, call("twice") + STORE),
    "nested, twice": (
        AT + TWICE, call("twice") + call("twice", "3", "%r8") + "  xor.b32 %r9, %r9, %r8;\n" + STORE
    ),
    "where a condition holds": (
        AT, "  mov.u32 %r9, 1; setp.lt.u32 %p1, %r1, 9;\n  @!%p1 bra $no;\n" + call() + "$no:\n" + STORE
    ),
    "structs": (PAIR, OF_PAIRS + STORE),
}  # fmt: skip


def text_of(functions: str, body: str) -> str:
    return HEAD + functions + KERNEL.format(body)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_computes_what_the_interpreter_of_ptx_says(name: str) -> None:
    text = text_of(*PROGRAMS[name])
    to = Array(np.zeros(THREADS, np.uint32), 4)
    launch(parse(text), "k", [Array(WORDS.copy(), 16, read_only=True), to], block=(THREADS, 1, 1))
    module = raise_ptx(text, new_context(), "k.ptx")
    assert not {op.name for op in walk(module.operation)} & {"llvm.call", "llvm.inline_asm"}
    found = machine.run(module, "k", [WORDS, np.zeros(THREADS, np.uint32)], threads=THREADS)
    assert not found.races and np.array_equal(found.arrays[1], to.data)
    assert len(set(to.data.tolist())) > 5
    checked = check_module(module, assume_noalias_arguments=True)
    assert not checked.unsafe and not checked.unknown


def test_parameters_may_be_registers() -> None:
    body = "  ld.global.u32 %r2, [%d4];\n  call (%r9), more, (%r2, 4);\n" + STORE
    module = raise_ptx(text_of(IN_REGISTERS, body), new_context(), "k.ptx")
    found = machine.run(module, "k", [WORDS, np.zeros(THREADS, np.uint32)], threads=THREADS)
    assert np.array_equal(found.arrays[1], WORDS * 3 + 4)


PUT = """\
.func put(.param .b64 s, .param .b32 i, .param .b32 v)
{
  .reg .b32 %r<5>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [s];
  ld.param.u32 %r1, [i];
  ld.param.u32 %r2, [v];
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d3, %d1, %d2;
  st.u32 [%d3], %r2;
  bar.sync 0;
  ret;
}
"""
THROUGH_SHARED = call() + """\
  { .param .b64 a; .param .b32 b; .param .b32 c;
  mov.u64 %d6, tile;
  cvta.shared.u64 %d7, %d6;
  st.param.b64 [a], %d7;
  st.param.b32 [b], %r1;
  st.param.b32 [c], %r9;
  call.uni put, (a, b, c); }
  xor.b32 %r4, %r1, 1;
  mul.wide.u32 %d8, %r4, 4;
  add.s64 %d9, %d6, %d8;
  ld.shared.u32 %r9, [%d9];
""" + STORE  # fmt: skip


def test_a_barrier_in_a_function_orders_what_its_callers_do() -> None:
    text = text_of(AT + PUT, THROUGH_SHARED)
    module = raise_ptx(text, new_context(), "k.ptx")
    found = check_module(module, assume_noalias_arguments=True)
    assert not found.unsafe and not found.unknown


def test_a_barrier_that_a_function_lacks_is_missed_at_its_line() -> None:
    text = text_of(AT + PUT, THROUGH_SHARED).replace("  bar.sync 0;\n", "")
    module = raise_ptx(text, new_context(), "k.ptx")
    found = check_module(module, assume_noalias_arguments=True)
    assert {code for code, _ in found.unsafe} == {"missing-barrier"}
    line = text[: text.index("st.u32 [%d3]")].count("\n") + 1
    notes = [note for entry in found.report.diagnostics for note in entry.notes]
    assert line in [note.place.line for note in notes if note.place]
    to = Array(np.zeros(THREADS, np.uint32), 4)
    with pytest.raises(PtxFault):
        launch(parse(text), "k", [Array(WORDS.copy(), 16), to], block=(THREADS, 1, 1))


RECURSIVE = """\
.func (.param .b32 out) again(.param .b64 x, .param .b32 i)
{
  .reg .b32 %r<5>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [x];
""" + call("again", "3", "%r2") + """\
  st.param.b32 [out], %r2;
  ret;
}
"""  # fmt: skip
EXTERNAL = ".extern .func (.param .b32 out) nobody(.param .b64 x, .param .b32 i);\n"
BY_REGISTER = call("%d5, proto").replace(
    "%d5, proto, (param0, param1)", "%d5, (param0, param1), proto"
)
PROTOTYPE = "proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);\n"


@pytest.mark.parametrize(
    ("functions", "body", "name"),
    [
        (RECURSIVE, call("again") + STORE, "again"),
        (EXTERNAL, call("nobody") + STORE, "nobody"),
        ("", PROTOTYPE + BY_REGISTER + STORE, "call"),
    ],
)
def test_what_cannot_be_followed_may_do_anything_at_its_line(
    functions: str, body: str, name: str
) -> None:
    text = text_of(functions, body)
    module = raise_ptx(text, new_context(), "k.ptx")
    (op,) = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
    assert name in str(op.attributes["asm_string"]) and "has_side_effects" in op.attributes
    found = check_module(module, assume_noalias_arguments=True)
    assert found.unknown and not found.unsafe
    line = text[: text.rindex("call.uni")].count("\n") + 1
    if not functions.startswith(".func"):
        assert line in [entry.place.line for entry in found.report.diagnostics if entry.place]


def test_what_a_thread_prints_nobody_reads() -> None:
    functions = ".extern .func (.param .b32 out) vprintf(.param .b64 x, .param .b32 i);\n"
    text = text_of(functions, call("vprintf") + "  st.global.u32 [%d5], %r1;")
    found = check_module(raise_ptx(text, new_context()), assume_noalias_arguments=True)
    assert not found.unsafe and not found.unknown


def test_a_call_with_other_parameters_is_refused_at_its_line() -> None:
    text = text_of(AT, call().replace("(param0, param1)", "(param0)") + STORE)
    with pytest.raises(InputError, match="2 parameters and 1 results, the call 1 and 1"):
        raise_ptx(text, new_context(), "k.ptx")


def test_calls_that_double_again_and_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_INSTRUCTIONS", 60)
    with pytest.raises(InputError, match="60 instructions") as found:
        raise_ptx(text_of(*PROGRAMS["nested, twice"]), new_context(), "k.ptx")
    assert found.value.code == "too-many-calls"
