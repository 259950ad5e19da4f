"""Threads of one block that race in a called function, over memory that the callee is handed.

Each program that races stands beside one that does not.

Covers: checker/sites.py, checker/selection.py, vocabulary/control_flow.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, verdict

KINDS = {
    "llvm": (
        "llvm.func @k(%p: !llvm.ptr<1>) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>, "
        "known_grid_size = array<i32: 1, 1, 1>}} {{\n{body}llvm.return\n}}\n"
    ),
    "gpu": (
        "gpu.module @m {{ gpu.func @k(%p: memref<?xi32>) workgroup(%s: memref<128xi32, 3>) kernel "
        "attributes {{known_block_size = array<i32: 64, 1, 1>, "
        "known_grid_size = array<i32: 1, 1, 1>}} {{\n%t = gpu.thread_id x\n"
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        "%c4 = arith.constant 4 : index\n%c63 = arith.constant 63 : index\n"
        "%c64 = arith.constant 64 : index\n{body}gpu.return\n}}\n{callees} }}\n"
    ),
}


def judged(kind: str, body: str, callees: str = "", before: str = "") -> str:
    text = KINDS[kind].format(body=body, callees=callees)
    return verdict(check_text(before + text + (callees if kind == "llvm" else "")).report)


def put(memory: str, place: str, name: str = "put", given: str = "") -> str:
    return f"""
    func.func private @{name}(%q: {memory}{given}) {{
      %i = gpu.thread_id x
      %z = arith.constant 0 : index
      %v = arith.constant 1 : i32
      memref.store %v, %q[{place}] : {memory}
      return
    }}"""


@pytest.mark.parametrize("memory", ["memref<?xi32>", "memref<128xi32, 3>"])
@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%i", "safe")])
def test_one_place_for_all_threads_is_a_race_in_a_callee(memory, place, said):
    handed = "%s" if memory.endswith("3>") else "%p"
    call = f"func.call @put({handed}) : ({memory}) -> ()\n"
    assert judged("gpu", call, put(memory, place)) == said


@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%i", "safe")])
def test_memory_is_handed_through_several_calls(place, said):
    middle = """
    func.func private @middle(%m: memref<?xi32>) {
      func.call @put(%m) : (memref<?xi32>) -> ()
      return
    }"""
    call = "func.call @middle(%p) : (memref<?xi32>) -> ()\n"
    assert judged("gpu", call, middle + put("memref<?xi32>", place)) == said


@pytest.mark.parametrize(("place", "said"), [("%c0", "unsafe"), ("%t", "safe")])
def test_the_caller_says_where_its_callee_stores(place, said):
    call = f"func.call @put(%p, {place}) : (memref<?xi32>, index) -> ()\n"
    assert judged("gpu", call, put("memref<?xi32>", "%w", given=", %w: index")) == said


@pytest.mark.parametrize("memory", ["memref<?xi32>", "memref<128xi32, 3>"])
@pytest.mark.parametrize(
    ("between", "said"), [("", "unsafe"), ("gpu.barrier\n", "safe"), ("call", "safe")]
)
def test_two_calls_of_one_function_meet_unless_a_barrier_stands_between(memory, between, said):
    handed = "%s" if memory.endswith("3>") else "%p"
    if between == "call":
        between = "func.call @meet() : () -> ()\n"
    kinds = f"({memory}, index) -> ()"
    body = (
        "%o = arith.subi %c63, %t : index\n"
        f"func.call @put({handed}, %t) : {kinds}\n{between}func.call @put({handed}, %o) : {kinds}\n"
    )
    meet = "\nfunc.func private @meet() {\n gpu.barrier\n return\n}"
    assert judged("gpu", body, put(memory, "%w", given=", %w: index") + meet) == said


@pytest.mark.parametrize(("step", "said"), [("%c1", "unsafe"), ("%c64", "safe")])
def test_each_iteration_hands_over_another_window(step, said):
    """Iteration k stores to t + k, or to t + 64 k: what the callee is given is another one each time."""
    window = "memref<1xi32, strided<[1], offset: ?>>"
    body = f"""
    scf.for %k = %c0 to %c4 step %c1 {{
      %a = arith.muli %k, {step} : index
      %b = arith.addi %a, %t : index
      %w = memref.subview %p[%b] [1] [1] : memref<?xi32> to {window}
      func.call @put(%w) : ({window}) -> ()
    }}
    """
    assert judged("gpu", body, put(window, "%z")) == said


@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%i", "safe")])
@pytest.mark.parametrize("space", ["", ", 3"])
def test_a_callee_stores_to_a_global_that_nobody_hands_it(place, said, space):
    callees = f"""
    memref.global @g : memref<64xi32{space}>
    func.func private @put() {{
      %i = gpu.thread_id x
      %z = arith.constant 0 : index
      %v = arith.constant 1 : i32
      %g = memref.get_global @g : memref<64xi32{space}>
      memref.store %v, %g[{place}] : memref<64xi32{space}>
      return
    }}"""
    assert judged("gpu", "func.call @put() : () -> ()\n", callees) == said


def callee(kind: str, place: str) -> str:
    return f"""
    llvm.func @put(%q: {kind}) {{
      %i = nvvm.read.ptx.sreg.tid.x : i32
      %z = llvm.mlir.constant(7 : i32) : i32
      %a = llvm.getelementptr %q[{place}] : ({kind}, i32) -> {kind}, i32
      llvm.store %i, %a : i32, {kind}
      llvm.return
    }}"""


@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%i", "safe")])
@pytest.mark.parametrize("space", [1, 3])
def test_pointers_without_a_space_lead_to_the_memory_of_the_caller(place, said, space):
    shared = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<64 x i32>\n"
    made = "%m = llvm.mlir.addressof @s : !llvm.ptr<3>\n" if space == 3 else ""
    body = (
        f"{made}%g = llvm.addrspacecast {'%m' if made else '%p'} : !llvm.ptr<{space}> to !llvm.ptr\n"
        "llvm.call @put(%g) : (!llvm.ptr) -> ()\n"
    )
    assert judged("llvm", body, callee("!llvm.ptr", place), shared) == said


@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%t", "safe")])
def test_a_callee_gives_a_pointer_back(place, said):
    pick = """
    llvm.func @pick(%q: !llvm.ptr<1>, %w: i32) -> !llvm.ptr<1> {
      %a = llvm.getelementptr %q[%w] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      llvm.return %a : !llvm.ptr<1>
    }"""
    body = (
        "%t = nvvm.read.ptx.sreg.tid.x : i32\n%z = llvm.mlir.constant(7 : i32) : i32\n"
        f"%a = llvm.call @pick(%p, {place}) : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>\n"
        "llvm.store %t, %a : i32, !llvm.ptr<1>\n"
    )
    assert judged("llvm", body, pick) == said


@pytest.mark.parametrize(("place", "said"), [("%z", "unsafe"), ("%t", "safe")])
def test_blocks_hand_a_pointer_on(place, said):
    body = f"""
      %t = nvvm.read.ptx.sreg.tid.x : i32
      %z = llvm.mlir.constant(7 : i32) : i32
      llvm.br ^next(%p : !llvm.ptr<1>)
    ^next(%q: !llvm.ptr<1>):
      %a = llvm.getelementptr %q[{place}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      llvm.store %t, %a : i32, !llvm.ptr<1>
    """
    assert judged("llvm", body) == said


def test_recursion_is_not_followed_and_said_so():
    again = """
    llvm.func @again(%q: !llvm.ptr<1>) {
      %i = nvvm.read.ptx.sreg.tid.x : i32
      llvm.store %i, %q : i32, !llvm.ptr<1>
      llvm.call @again(%q) : (!llvm.ptr<1>) -> ()
      llvm.return
    }"""
    assert judged("llvm", "llvm.call @again(%p) : (!llvm.ptr<1>) -> ()\n", again) != "safe"


@pytest.mark.parametrize(
    "body",
    [
        "%f = llvm.mlir.addressof @put : !llvm.ptr\nllvm.call %f(%p) : !llvm.ptr, (!llvm.ptr<1>) -> ()\n",
        "llvm.call @elsewhere(%p) : (!llvm.ptr<1>) -> ()\n",
    ],
)
def test_a_call_of_what_cannot_be_seen_is_unknown(body):
    callees = "llvm.func @elsewhere(!llvm.ptr<1>)" + callee("!llvm.ptr<1>", "%z")
    assert judged("llvm", body, callees) == "unknown"


def test_a_pointer_that_each_thread_loads_may_be_its_own():
    """What is stored there is no certain race: each thread may have loaded another address."""
    body = (
        "%t = nvvm.read.ptx.sreg.tid.x : i32\n"
        "%a = llvm.getelementptr %p[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.ptr<1>\n"
        "%q = llvm.load %a : !llvm.ptr<1> -> !llvm.ptr<1>\n"
        "llvm.store %t, %q : i32, !llvm.ptr<1>\n"
    )
    assert judged("llvm", body) == "unknown"


def test_a_loaded_pointer_may_lead_to_workgroup_memory():
    """The store may meet what another thread loads in the same barrier interval."""
    shared = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<64 x i32>\n"
    body = (
        "%t = nvvm.read.ptx.sreg.tid.x : i32\n%m = llvm.mlir.addressof @s : !llvm.ptr<3>\n"
        "%q = llvm.load %p : !llvm.ptr<1> -> !llvm.ptr\n{store}"
        "%v = llvm.load %m : !llvm.ptr<3> -> i32\n"
    )
    assert judged("llvm", body.format(store=""), before=shared) == "safe"
    store = "%w = llvm.getelementptr %q[%t] : (!llvm.ptr, i32) -> !llvm.ptr, i32\n"
    store += "llvm.store %t, %w : i32, !llvm.ptr\n"
    text = KINDS["llvm"].format(body=body.format(store=store))
    found = check_text(shared + text, assume_noalias_arguments=True).report.of("hazards")
    assert {str(entry.place).rpartition(":")[0][-2:] for entry in found} != set()
    assert any(entry.op == "llvm.load" for entry in found)
