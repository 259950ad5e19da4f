"""A condition is the same for all threads only if that is proven, in every form of control flow.

Each kernel copies an element a thread, waits, has a barrier, and reads another thread's element;
one of the steps stands under a condition. Where threads may disagree on it, the result must not
be "safe"; where they cannot, everything must be.

Covers: checker/thread_divergence.py, checker/grid_blocks.py, checker/step_graph.py,
checker/kernel_flow.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, codes, machine_races

TARGET = "nvvm:sm_80"
KERNEL = """
gpu.module @m {{
  func.func private @unknown() -> i1
  gpu.func @k(%A: memref<64xf32> {{llvm.noalias}}, %F: memref<64xf32> {{llvm.noalias}},
              %B: memref<64xi8> {{llvm.noalias}}, %n: index, %f: f32)
      workgroup(%s: memref<64xf32, 3>) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %c63 = arith.constant 63 : index
    %no = arith.constant false
    %yes = arith.constant true
    %zero = arith.constant 0.0 : f32
    %i1 = arith.constant 1 : i32
    %i32 = arith.constant 32 : i32
    %t = gpu.thread_id x
    %t32 = arith.index_cast %t : index to i32
    %mirror = arith.subi %c63, %t : index
    {condition}
    {body}
    gpu.return
  }}
}}
"""
COPY = """%a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<64xf32> to memref<64xf32, 3>
    nvvm.cp.async.commit.group"""
WAIT = "nvvm.cp.async.wait.group 0"
BARRIER = "gpu.barrier"
READ = "%x = memref.load %s[%mirror] : memref<64xf32, 3>"

# Each gives %p, an i1 that may be another one in each thread.
PER_THREAD = {
    "thread-id-and-argument": "%p = arith.cmpi ult, %t, %n : index",
    "equal-to-an-argument": "%p = arith.cmpi eq, %t, %n : index",
    "product-with-an-argument": """%w = arith.muli %t, %n : index
    %p = arith.cmpi ult, %w, %c32 : index""",
    "thread-id": "%p = arith.cmpi ult, %t, %c32 : index",
    "lane": """%l = gpu.lane_id
    %p = arith.cmpi ult, %l, %n : index""",
    "subgroup": """%l = gpu.subgroup_id : index
    %p = arith.cmpi ult, %l, %n : index""",
    "global-id": """%l = gpu.global_id x
    %p = arith.cmpi ult, %l, %n : index""",
    "nvvm-tid": """%l = nvvm.read.ptx.sreg.tid.x : i32
    %m = arith.index_cast %n : index to i32
    %p = arith.cmpi ult, %l, %m : i32""",
    "nvvm-lane": """%l = nvvm.read.ptx.sreg.laneid : i32
    %m = arith.index_cast %n : index to i32
    %p = arith.cmpi ult, %l, %m : i32""",
    "nvvm-clock": """%l = nvvm.read.ptx.sreg.clock : i32
    %p = arith.cmpi ult, %l, %i32 : i32""",
    "load": """%v = memref.load %B[%t] : memref<64xi8>
    %p = arith.trunci %v : i8 to i1""",
    "atomic-at-one-place": """%i8 = arith.constant 1 : i8
    %v = memref.atomic_rmw addi %i8, %B[%c0] : (i8, memref<64xi8>) -> i8
    %p = arith.trunci %v : i8 to i1""",
    "loaded-float": """%v = memref.load %F[%t] : memref<64xf32>
    %p = arith.cmpf ogt, %v, %zero : f32""",
    "computed-float": """%v = arith.uitofp %t32 : i32 to f32
    %p = arith.cmpf ogt, %v, %f : f32""",
    "shuffle": """%v, %in = gpu.shuffle xor %t32, %i1, %i32 : i32
    %p = arith.cmpi ult, %v, %i32 : i32""",
    "shuffle-inside": "%v, %p = gpu.shuffle xor %t32, %i1, %i32 : i32",
    "first-lane-of-a-wave": """%v = rocdl.readfirstlane %t32 : i32
    %p = arith.cmpi ult, %v, %i32 : i32""",
    "lanes-of-a-row": """%v = amdgpu.dpp %t32 %t32 row_mirror : i32
    %p = arith.cmpi ult, %v, %i32 : i32""",
    "call": "%p = func.call @unknown() : () -> i1",
    "unknown-op": '%p = "test.unknown"() : () -> i1',
    "selected": """%q = arith.cmpi ult, %t, %n : index
    %p = arith.select %q, %yes, %no : i1""",
    "yielded": """%q = arith.cmpi ult, %t, %n : index
    %p = scf.if %q -> i1 { scf.yield %yes : i1 } else { scf.yield %no : i1 }""",
    "carried-by-a-loop": """%count = scf.for %i = %c0 to %t step %c1 iter_args(%b = %no) -> i1 {
      %flip = arith.xori %b, %yes : i1
      scf.yield %flip : i1
    }
    %p = arith.andi %count, %yes : i1""",
    "carried-by-a-while": """%r = scf.while (%i = %c0) : (index) -> index {
      %more = arith.cmpi ult, %i, %t : index
      scf.condition(%more) %i : index
    } do {
    ^bb0(%i: index):
      %next = arith.addi %i, %c1 : index
      scf.yield %next : index
    }
    %p = arith.cmpi ult, %r, %n : index""",
}
# Each gives %p, the same i1 in all threads.
SHARED = {
    "load-at-one-place": """%v = memref.load %B[%c0] : memref<64xi8>
    %p = arith.trunci %v : i8 to i1""",
    "constant": "%p = arith.constant true",
    "argument": "%p = arith.cmpi ult, %n, %c32 : index",
    "block-id": """%l = gpu.block_id x
    %p = arith.cmpi ult, %l, %n : index""",
    "grid-size": """%l = gpu.grid_dim x
    %p = arith.cmpi ult, %l, %n : index""",
    "nvvm-block": """%l = nvvm.read.ptx.sreg.ctaid.x : i32
    %p = arith.cmpi ult, %l, %i32 : i32""",
    "float-argument": "%p = arith.cmpf ogt, %f, %zero : f32",
    "yielded": """%q = arith.cmpi ult, %n, %c4 : index
    %p = scf.if %q -> i1 { scf.yield %yes : i1 } else { scf.yield %no : i1 }""",
    "true-of-all-threads": """%c64 = arith.constant 64 : index
    %p = arith.cmpi ult, %t, %c64 : index""",
}


def structured(inner: str) -> str:
    return f"scf.if %p {{ {inner} }}"


def other_side(inner: str) -> str:
    return f"scf.if %p {{ }} else {{ {inner} }}"


def index_switch(inner: str) -> str:
    return f"""%w{len(inner)} = arith.index_castui %p : i1 to index
    scf.index_switch %w{len(inner)} case 1 {{ {inner} scf.yield }} default {{ }}"""


def counted_loop(inner: str) -> str:
    return f"""%w{len(inner)} = arith.index_castui %p : i1 to index
    scf.for %i = %c0 to %w{len(inner)} step %c1 {{ {inner} }}"""


def parallel_loop(inner: str) -> str:
    return f"""%w{len(inner)} = arith.index_castui %p : i1 to index
    scf.parallel (%i, %j) = (%c0, %c0) to (%n, %w{len(inner)}) step (%c1, %c1) {{ {inner} scf.reduce }}"""


def forall_loop(inner: str) -> str:
    return f"""%w{len(inner)} = arith.index_castui %p : i1 to index
    scf.forall (%i) in (%w{len(inner)}) {{ {inner} }}"""


def while_loop(inner: str) -> str:
    return f"""scf.while (%b = %p) : (i1) -> () {{
      scf.condition(%b)
    }} do {{
      {inner}
      scf.yield %no : i1
    }}"""


def jump(inner: str) -> str:
    n = len(inner)
    return f"""cf.cond_br %p, ^in{n}, ^out{n}
  ^in{n}:
    {inner}
    cf.br ^out{n}
  ^out{n}:"""


def jump_switch(inner: str) -> str:
    n = len(inner)
    return f"""%w{n} = arith.extui %p : i1 to i32
    cf.switch %w{n} : i32, [ default: ^out{n}, 1: ^in{n} ]
  ^in{n}:
    {inner}
    cf.br ^out{n}
  ^out{n}:"""


def jumping_loop(inner: str) -> str:
    n = len(inner)
    return f"""cf.br ^head{n}(%p : i1)
  ^head{n}(%again{n}: i1):
    cf.cond_br %again{n}, ^in{n}, ^out{n}
  ^in{n}:
    {inner}
    cf.br ^head{n}(%no : i1)
  ^out{n}:"""


FORMS = [
    structured,
    other_side,
    index_switch,
    counted_loop,
    parallel_loop,
    forall_loop,
    while_loop,
    jump,
    jump_switch,
    jumping_loop,
]


def under_the_condition(step: str, form) -> str:
    """The kernel's body with one step, and the read after it, under the condition."""
    steps = {
        "wait": [COPY, form(WAIT), BARRIER, form(READ)],
        "commit": [COPY.splitlines()[0], form("nvvm.cp.async.commit.group"), WAIT, BARRIER, READ],
        "barrier": [COPY, WAIT, form(BARRIER), form(READ)],
    }
    return "\n    ".join(steps[step])


def checked(condition: str, body: str):
    return check_text(KERNEL.format(condition=condition, body=body), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", ["wait", "commit", "barrier"])
def test_what_only_some_threads_do_proves_nothing(step: str, form) -> None:
    """Law: under a condition that differs between threads the kernel is unsafe or unknown."""
    silent = [
        name
        for name, condition in PER_THREAD.items()
        if not (found := checked(condition, under_the_condition(step, form))).unsafe
        and not found.unknown
    ]
    assert silent == []


COUNTED = (counted_loop, parallel_loop, forall_loop)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in COUNTED])
@pytest.mark.parametrize("step", ["wait", "barrier"])
def test_what_all_threads_do_or_none_is_proven(step: str, form) -> None:
    """Law: with a condition that all threads share the kernel is safe, nothing unknown.

    (That two loops run equally often, none or one time, is not followed.)
    """
    loud = {}
    for name, condition in SHARED.items():
        found = checked(condition, under_the_condition(step, form))
        if found.unsafe or found.unknown:
            loud[name] = found.report.of("checks")
    assert loud == {}


@pytest.mark.parametrize("name", ["thread-id-and-argument", "thread-id", "selected", "yielded"])
def test_the_machine_sees_the_wait_that_some_threads_skip(name: str) -> None:
    """Threads 32 to 63 leave their copies in flight; threads 0 to 31 read what those write."""
    text = KERNEL.format(condition=PER_THREAD[name], body=under_the_condition("wait", structured))
    text = text.replace("func.func private @unknown() -> i1", "").replace(", %f: f32", "")
    assert machine_races(text, TARGET, trips=[32])


SIDES = """%low = arith.cmpi ult, %t, %c32 : index
    %high = arith.cmpi {high}, %t, %c32 : index"""


@pytest.mark.parametrize(("high", "all_wait"), [("uge", True), ("ugt", False), ("ult", False)])
@pytest.mark.parametrize("between", ["", BARRIER])
@pytest.mark.parametrize("step", ["wait", "commit"])
def test_two_branches_may_share_out_what_all_threads_have_to_do(
    step: str, between: str, high: str, all_wait: bool
) -> None:
    """No thread takes neither of two branches of which the one is the other's opposite; else thread 32, or all from it on."""
    copy, commit = COPY.split("\n")
    shared = WAIT if step == "wait" else commit
    lines = [COPY if step == "wait" else copy, f"scf.if %low {{ {shared} }}", between]
    lines += [f"scf.if %high {{ {shared} }}", "" if step == "wait" else WAIT, BARRIER, READ]
    body = "\n".join(lines)
    found = checked(SIDES.format(high=high), body)
    assert not found.unknown
    assert bool(found.unsafe) is not all_wait
    text = KERNEL.format(condition=SIDES.format(high=high), body=body)
    text = text.replace("func.func private @unknown() -> i1", "").replace(", %f: f32", "")
    assert bool(machine_races(text, TARGET, trips=[32])) is not all_wait


ROUND = f"{COPY}\n{WAIT}\n{BARRIER}\n{READ}\n{BARRIER}"
LOOPS = {
    "for": f"scf.for %o = %c0 to BOUND step %c1 {{ {ROUND} }}",
    "parallel": f"scf.parallel (%o) = (%c0) to (BOUND) step (%c1) {{ {ROUND} scf.reduce }}",
    "forall": f"scf.forall (%o) in (BOUND) {{ {ROUND} }}",
    "affine": f"""%bound = arith.addi BOUND, %c0 : index
    affine.for %o = 0 to min affine_map<(d0) -> (d0, 8)>(%bound) {{ {ROUND} }}""",
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("barrier", ["own thread reads", "others read"])
def test_barriers_in_a_loop_count_if_all_threads_run_it_equally_often(
    loop: str, barrier: str
) -> None:
    """Law: safe with a bound that threads share; never with one that differs between them."""
    body = LOOPS[loop] if barrier == "others read" else LOOPS[loop].replace("%mirror", "%t")
    shared = checked("", body.replace("BOUND", "%n"))
    assert not shared.unsafe
    assert not shared.unknown
    apart = checked("", body.replace("BOUND", "%t"))
    assert apart.unsafe or apart.unknown


RETURNS = """
gpu.module @m {{
  gpu.func @k(%y: memref<?xf32>, %v: f32, %size: index) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    %first = arith.cmpi {first}, %t, %c0 : index
    cf.cond_br %first, ^loop(%c0 : index), ^other
  ^loop(%n: index):
    %m = arith.addi %n, %c1 : index
    %more = arith.cmpi slt, %m, %size : index
    cf.cond_br %more, ^loop(%m : index), ^last
  ^last:
    memref.store %v, %y[%c0] : memref<?xf32>
    gpu.return
  ^other:
    {other}
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("first", "other", "found"),
    [
        ("eq", "", set()),
        ("ne", "", {"missing-barrier"}),
        ("eq", "memref.store %v, %y[%t] : memref<?xf32>", set()),
        ("eq", "memref.store %v, %y[%c0] : memref<?xf32>", {"missing-barrier"}),
    ],
)
def test_a_condition_holds_in_the_loops_of_a_way_that_returns_by_itself(
    first: str, other: str, found: set[str]
) -> None:
    harness = check_text(RETURNS.format(first=first, other=other))
    assert codes(harness.report) == found
