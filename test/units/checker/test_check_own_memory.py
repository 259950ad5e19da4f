"""A thread's own memory: no other thread reaches it, unless its address is shown.

Covers: facts/values/memory_roots.py, vocabulary/memory_names.py, checker/sites.py,
checker/path_values.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, verdict

KERNEL = """
llvm.mlir.global internal @s() {{addr_space = 3 : i32}} : !llvm.array<64 x ptr>
llvm.func @elsewhere(!llvm.ptr)
llvm.func @put(%p: !llvm.ptr, %v: i32) {{
  llvm.store %v, %p : i32, !llvm.ptr
  llvm.return
}}
llvm.func @k(%out: !llvm.ptr<1> {{llvm.noalias}}, %n: i32{argument}) attributes {{
    nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>, known_grid_size = array<i32: {blocks}, 1, 1>}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %s = llvm.mlir.addressof @s : !llvm.ptr<3>
  {body}
  llvm.return
}}
"""
STACK = "%a = llvm.alloca %one x !llvm.array<4 x i32> : (i32) -> !llvm.ptr\n"
OWN = {
    "stack": STACK,
    "address space 5": "%b = llvm.alloca %one x i32 : (i32) -> !llvm.ptr<5>\n"
    "%a = llvm.addrspacecast %b : !llvm.ptr<5> to !llvm.ptr\n",
    "in a struct": "%b = llvm.alloca %one x i32 : (i32) -> !llvm.ptr\n"
    "%u = llvm.mlir.undef : !llvm.struct<(i32, struct<(ptr, i32)>)>\n"
    "%w = llvm.insertvalue %b, %u[1, 0] : !llvm.struct<(i32, struct<(ptr, i32)>)>\n"
    "%x = llvm.insertvalue %t, %w[1, 1] : !llvm.struct<(i32, struct<(ptr, i32)>)>\n"
    "%a = llvm.extractvalue %x[1, 0] : !llvm.struct<(i32, struct<(ptr, i32)>)>\n",
    "a place in it": STACK.replace("%a =", "%b =")
    + "%a = llvm.getelementptr %b[%n] : (!llvm.ptr, i32) -> !llvm.ptr, i32\n",
    "with a lifetime": STACK + "llvm.intr.lifetime.start %a : !llvm.ptr\n",
    "passed by value": "",
}
USES = {
    "stored to": "llvm.store %t, %a : i32, !llvm.ptr",
    "stored to by a callee": "llvm.call @put(%a, %t) : (!llvm.ptr, i32) -> ()",
    "both sides of a barrier": "llvm.store %t, %a : i32, !llvm.ptr\nnvvm.barrier\n"
    "%v = llvm.load %a : !llvm.ptr -> i32\n",
}


def judged(body: str, argument: str = "", blocks: int = 2) -> str:
    text = KERNEL.format(body=body, argument=argument, blocks=blocks)
    return verdict(check_text(text).report)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", OWN)
def test_threads_do_not_meet_in_their_own_memory(made, use):
    argument = ", %a: !llvm.ptr {llvm.byval = !llvm.array<4 x i32>}" if not OWN[made] else ""
    assert judged(OWN[made] + USES[use], argument) == "safe"


@pytest.mark.parametrize("use", USES)
def test_they_meet_in_memory_that_they_are_given(use):
    assert judged(USES[use], ", %a: !llvm.ptr") == "unsafe"


@pytest.mark.parametrize("space", ["", ", #gpu.address_space<private>"])
@pytest.mark.parametrize("made", ["attribution", "alloca", "workgroup"])
def test_memrefs_of_a_thread_are_its_own_too(made, space):
    space = ", #gpu.address_space<workgroup>" if made == "workgroup" else space
    kind = f"memref<4xi32{space}>"
    declared = {"attribution": f"private(%a: {kind})", "workgroup": f"workgroup(%a: {kind})"}
    body = f"%a = memref.alloca() : {kind}" if made == "alloca" else ""
    text = f"""
    gpu.module @m {{
      gpu.func @k() {declared.get(made, "")} kernel
          attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %t = gpu.thread_id x
        %v = arith.index_cast %t : index to i32
        {body}
        memref.store %v, %a[%c0] : {kind}
        gpu.return
      }}
    }}"""
    expected = "unsafe" if made == "workgroup" else "safe"
    assert verdict(check_text(text).report) == expected


# %a is told to others here; what they do with it nobody can say.
SHOWN = {
    "stored": "llvm.store %a, %s : !llvm.ptr, !llvm.ptr<3>\n",
    "as a number": "%i = llvm.ptrtoint %a : !llvm.ptr to i64\n"
    "llvm.store %i, %out : i64, !llvm.ptr<1>\n",
    "a part of it": "%g = llvm.getelementptr %a[1] : (!llvm.ptr) -> !llvm.ptr, i32\n"
    "llvm.store %g, %s : !llvm.ptr, !llvm.ptr<3>\n",
    "in a struct": "%u = llvm.mlir.undef : !llvm.struct<(ptr, i32)>\n"
    "%w = llvm.insertvalue %a, %u[0] : !llvm.struct<(ptr, i32)>\n"
    "llvm.store %w, %s : !llvm.struct<(ptr, i32)>, !llvm.ptr<3>\n",
    "exchanged": "%o = llvm.atomicrmw xchg %s, %a monotonic : !llvm.ptr<3>, !llvm.ptr\n",
}
MEET = (
    "llvm.store %t, %a : i32, !llvm.ptr\n{shown}nvvm.barrier\n"
    "%q = llvm.load %s : !llvm.ptr<3> -> !llvm.ptr\n%v = llvm.load %q : !llvm.ptr -> i32\n"
    "llvm.store %t, %a : i32, !llvm.ptr\n"
)


@pytest.mark.parametrize("shown", SHOWN)
def test_a_pointer_that_was_shown_may_be_what_another_thread_loads(shown):
    text = KERNEL.format(body=STACK + MEET.format(shown=SHOWN[shown]), argument="", blocks=1)
    # Loaded through %q after the barrier, stored to by its owner in the same interval.
    found = check_text(text).report.of("hazards")
    meetings = [e for e in found if (e.op, e.other_op) == ("llvm.store", "llvm.load")]
    assert [(e.verdict, e.reason) for e in meetings] == [("unknown", "may-alias")]


def test_what_nobody_was_shown_is_not_what_another_thread_loads():
    text = KERNEL.format(body=STACK + MEET.format(shown=""), argument="", blocks=1)
    assert verdict(check_text(text).report) == "safe"


def test_an_op_that_nobody_knows_may_tell_others():
    assert judged(STACK + "llvm.call @elsewhere(%a) : (!llvm.ptr) -> ()\n", blocks=1) == "unknown"


def test_a_pointer_whose_step_is_not_understood_is_no_certain_race():
    """The element's size is not known, so nobody knows that all threads store to one place."""
    step = (
        "%q = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, "
        '!llvm.target<"spirv.Image">\n'
        "%r = llvm.getelementptr %q[8] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8\n"
    )
    assert judged(step + "llvm.store %t, %r : i32, !llvm.ptr<1>", blocks=1) == "unknown"
    assert judged("llvm.store %t, %out : i32, !llvm.ptr<1>", blocks=1) == "unsafe"


VARIABLES = {
    "in place": ("", "safe", 2),
    "shown": ("llvm.call @elsewhere(%a) : (!llvm.ptr) -> ()", "unknown", 5),
}


@pytest.mark.parametrize("shown", VARIABLES)
def test_variables_are_values_where_nobody_else_may_reach_them(shown):
    """A subscript that went through memory is followed; the memory of a variable is no access."""
    text, expected, accesses = VARIABLES[shown]
    body = (
        STACK
        + f"""llvm.store %t, %a : i32, !llvm.ptr
{text}
%i = llvm.load %a : !llvm.ptr -> i32
%p = llvm.getelementptr %out[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
llvm.store %t, %p : i32, !llvm.ptr<1>
%v = llvm.load %p : !llvm.ptr<1> -> i32
"""
    )
    found = check_text(KERNEL.format(body=body, argument="", blocks=1))
    assert verdict(found.report) == expected
    assert found.accesses == accesses
