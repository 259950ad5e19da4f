"""Copies, commits, waits and barriers that stand in assembly or intrinsics are never passed over.

llvm.inline_asm "my.copy …"      no row of the tables reads it

Covers: checker/unfollowed.py, checker/selection.py, checker/effects.py, checker/owners.py,
checker/sites.py, vocabulary/async_ops.py
"""

import pytest

from helpers.check_harness import check_text
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque

COPY = "nvvm.cp.async.shared.global %B, %A, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>\n"
COMMIT = "nvvm.cp.async.commit.group\n"
INTRINSIC_COMMIT = 'llvm.call_intrinsic "llvm.nvvm.cp.async.commit.group"() : () -> ()\n'
INTRINSIC_COPY = (
    'llvm.call_intrinsic "llvm.nvvm.cp.async.ca.shared.global.4"(%B, %A) '
    ": (!llvm.ptr<3>, !llvm.ptr<1>) -> ()\n"
)
ASSEMBLY_COPY = (
    'llvm.inline_asm has_side_effects "cp.async.ca.shared.global [$0], [$1], 4;", "l,l" %B, %A '
    ": (!llvm.ptr<3>, !llvm.ptr<1>) -> ()\n"
)
ADDRESSES_COPY = (
    "%b = llvm.ptrtoint %B : !llvm.ptr<3> to i32\n%a = llvm.ptrtoint %A : !llvm.ptr<1> to i64\n"
    'llvm.inline_asm has_side_effects "cp.async.ca.shared.global [$0], [$1], 4;", "r,l" %b, %a '
    ": (i32, i64) -> ()\n"
)
ASSEMBLY_COMMIT = 'llvm.inline_asm has_side_effects "cp.async.commit_group;", "" : () -> ()\n'
UNKNOWN = 'llvm.call_intrinsic "llvm.my.copy"(%B) : (!llvm.ptr<3>) -> ()\n'
CALLED_WAIT = "llvm.call @llvm.nvvm.cp.async.commit.group() : () -> ()\n"
RACES = {
    "intrinsic copy": INTRINSIC_COPY + INTRINSIC_COMMIT,
    "assembly copy": ASSEMBLY_COPY,
    "copy of addresses": ADDRESSES_COPY,
    "assembly commit": COPY + ASSEMBLY_COMMIT + "nvvm.cp.async.wait.group 1\n",
    "intrinsic commit": COPY + INTRINSIC_COMMIT + "nvvm.cp.async.wait.group 1\n",
    "intrinsic by symbol": CALLED_WAIT,
    "unknown intrinsic": UNKNOWN,
}
ARGUMENTS = (
    "%A: !llvm.ptr<1> {llvm.noalias}, %B: !llvm.ptr<3> {llvm.noalias}, "
    "%O: !llvm.ptr<1> {llvm.noalias}"
)
LOAD = "%v = llvm.load %B : !llvm.ptr<3> -> f32\nllvm.store %v, %O : f32, !llvm.ptr<1>\n"


def kernel(body: str, before: str = "") -> str:
    before += "llvm.func @llvm.nvvm.cp.async.commit.group()\n"
    return f"{before}llvm.func @f({ARGUMENTS}) {{\n{body}llvm.return\n}}\n"


def reported(text: str) -> bool:
    return any(entry.unsafe + entry.unknown for entry in check_text(text).report.of("checks"))


@pytest.mark.parametrize("race", RACES)
def test_race_through_code_that_nobody_reads_is_reported(race):
    assert reported(kernel(RACES[race] + LOAD))


@pytest.mark.parametrize("race", RACES)
def test_race_through_code_in_a_callee_is_reported(race):
    kinds = "(!llvm.ptr<1>, !llvm.ptr<3>, !llvm.ptr<1>) -> ()"
    callee = f"llvm.func internal @g({ARGUMENTS}) {{\n{RACES[race]}llvm.return\n}}\n"
    assert reported(kernel(f"llvm.call @g(%A, %B, %O) : {kinds}\n{LOAD}", callee))


ONE = "%one = llvm.mlir.constant(1 : i32) : i32\n"
COMPUTING = {
    "assembly": '%two = llvm.inline_asm "add.u32 $0, $1, 1;", "=r,r" %one : (i32) -> i32\n',
    "op": "%two = llvm.intr.umax(%one, %one) : (i32, i32) -> i32\n",
    "intrinsic": '%two = llvm.call_intrinsic "llvm.ctpop.i32"(%one) : (i32) -> i32\n',
    "NVVM's": '%two = llvm.call_intrinsic "llvm.nvvm.popc.i"(%one) : (i32) -> i32\n',
}


@pytest.mark.parametrize("wait", (0, 1))
@pytest.mark.parametrize("code", COMPUTING)
def test_code_that_only_computes_is_no_reason_for_doubt(wait, code):
    """It makes values of values; the copies around it are judged as ever."""
    compute = ONE + COMPUTING[code]
    body = f"{COPY}{COMMIT}{compute}nvvm.cp.async.wait.group {wait}\n{LOAD}"
    checked = check_text(kernel(body))
    assert bool(checked.unsafe) == (wait == 1)
    assert not checked.unknown or wait == 1


def test_a_fence_touches_nothing():
    """Each thread stores to a place of its own, in each iteration, and fences in between."""
    text = """
    func.func @f(%out: memref<?xf32>, %v: f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %t = gpu.thread_id x
      scf.for %i = %c0 to %c4 step %c1 {
        memref.store %v, %out[%t] : memref<?xf32>
        nvvm.wgmma.fence.aligned
      }
      return
    }"""
    assert not reported(text)
    assert reported(text.replace("%out[%t]", "%out[%i]"))


def test_what_stands_in_no_function_is_reported_wherever_it_stands():
    """The scope, the commit in it, and the wait; not the commit of the function."""
    text = """
    "async_pipe.scope"() ({
      nvvm.cp.async.commit.group
    }) : () -> ()
    nvvm.cp.async.wait.group 0
    func.func @f() {
      nvvm.cp.async.commit.group
      return
    }"""
    warned = [str(entry) for entry in check_text(text).report.diagnostics]
    homeless = [line for line in warned if "it stands in no function" in line]
    assert len(homeless) == 3


@pytest.mark.parametrize("code", COMPUTING)
def test_code_that_only_computes_touches_no_memory_for_the_pipeliner(code):
    with new_context():
        module = ir.Module.parse(f"llvm.func @f() {{\n{ONE}{COMPUTING[code]}llvm.return\n}}")
        assert not any(is_opaque(op) for op in walk(module) if op.name.startswith("llvm.in"))


HOST = """
func.func @host(%A: memref<1xi64>, %one: i64) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  memref.store %one, %A[%c0] : memref<1xi64>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %c128, %sy = %c1, %sz = %c1) {{
    {inside}
    %t = gpu.thread_id x
    gpu.terminator
  }}
  return
}}"""


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("", (0, 0)),
        (ASSEMBLY_COMMIT, (0, 0)),
        (ASSEMBLY_COMMIT.replace("commit_group", "of.mine"), (0, 1)),
        ("memref.store %one, %A[%c0] : memref<1xi64>", (1, 0)),
    ],
)
def test_one_thread_of_the_host_stores_around_a_launch(inside, said):
    """Whatever the kernel does: what stands around it is none."""
    report = check_text(HOST.format(inside=inside)).report
    assert [(entry.function, entry.unsafe, entry.unknown) for entry in report.of("checks")] == [
        ("gpu.launch", *said)
    ]


NOBODY_KNOWS = """
gpu.module @m {{
  gpu.func @k(%g: memref<64xf32> {{llvm.noalias}}, %o: memref<64xf32> {{llvm.noalias}})
      workgroup(%s: memref<64xf32, 3>) kernel attributes {{
      known_block_size = array<i32: {threads}, 1, 1>, known_grid_size = array<i32: {blocks}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %b = gpu.block_id x
    {body}
    gpu.return
  }}
}}"""
TOUCHED = '"test.touch"(%g) : (memref<64xf32>) -> ()\n'
STORED, LOADED = (
    "memref.store %z, %g[{at}] : memref<64xf32>",
    "%v = memref.load %g[{at}] : memref<64xf32>\n memref.store %v, %o[{at}] : memref<64xf32>",
)


@pytest.mark.parametrize("access", [STORED, LOADED], ids=["store", "load"])
@pytest.mark.parametrize(
    ("threads", "blocks", "at", "found"),
    [
        (1, 1, "%c0", set()),
        (32, 1, "%t", {"missing-barrier"}),
        (1, 2, "%b", {"missing-barrier", "cross-block"}),
    ],
    ids=["one thread", "threads", "blocks"],
)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_an_op_that_nobody_knows_may_touch_the_global_memory_that_it_is_given(
    first, threads, blocks, at, found, access
):
    parts = [TOUCHED, access.format(at=at)]
    body = "\n".join(parts if first else reversed(parts))
    checked = check_text(NOBODY_KNOWS.format(threads=threads, blocks=blocks, body=body))
    assert not checked.unsafe
    assert {code for code, _ in checked.unknown} == found
    op = "memref.store" if access == STORED else "memref.load"
    pairs = [{h.op, h.other_op} for h in checked.report.of("hazards")]
    assert ({"test.touch", op} in pairs) == bool(found)


@pytest.mark.parametrize(
    ("memory", "kind"), [("%g", "memref<64xf32>"), ("%s", "memref<64xf32, 3>")]
)
def test_an_op_that_nobody_knows_meets_itself_in_other_threads(memory, kind):
    text = NOBODY_KNOWS.format(
        threads=32, blocks=1, body=f'"test.touch"({memory}) : ({kind}) -> ()'
    )
    assert {code for code, _ in check_text(text).unknown} == {"missing-barrier"}
    alone = text.replace("array<i32: 32", "array<i32: 1")
    assert not check_text(alone).unknown


def test_reads_alone_meet_what_an_op_does_that_nobody_knows():
    """Nothing else writes to this memory."""
    body = """%v = memref.load %s[%t] : memref<64xf32, 3>
    "test.touch"(%s) : (memref<64xf32, 3>) -> ()
    memref.store %v, %o[%t] : memref<64xf32>"""
    checked = check_text(NOBODY_KNOWS.format(threads=32, blocks=1, body=body))
    pairs = [{h.op, h.other_op} for h in checked.report.of("hazards")]
    assert {"test.touch", "memref.load"} in pairs


def test_its_author_may_say_that_it_touches_what_no_other_thread_does():
    body = TOUCHED + STORED.format(at="%t")
    text = NOBODY_KNOWS.format(threads=32, blocks=2, body=body)
    said = text.replace("attributes {", "attributes {async_pipe.independent, ")
    assert check_text(text).unknown
    assert not check_text(said).unknown


def test_of_ops_that_nobody_knows_one_finding_an_access_is_enough():
    """40 of them, and 40 loads: all are unknown, by a pair each and the first ones', not by 80 * 79 / 2 pairs."""
    touched = '"test.touch"(%s) : (memref<64xf32, 3>) -> ()\n'
    loads = "".join(f"%v{n} = memref.load %s[%t] : memref<64xf32, 3>\n" for n in range(40))
    text = NOBODY_KNOWS.format(threads=32, blocks=1, body=touched * 40 + loads + touched)
    report = check_text(text).report
    (summary,) = report.of("checks")
    assert summary.unknown == summary.accesses == 81
    assert len(report.of("hazards")) <= 2 * 81


def test_a_race_among_accesses_that_an_op_may_meet_that_nobody_knows_is_found():
    """The pair with a code of its own is left out for no pair with such an op."""
    races = "memref.store %z, %s[%c0] : memref<64xf32, 3>\n"
    body = f'"test.touch"(%s) : (memref<64xf32, 3>) -> ()\n{races}gpu.barrier\n{races}'
    hazards = check_text(NOBODY_KNOWS.format(threads=32, blocks=1, body=body)).report.of("hazards")
    assert {"memref.store"} in [{h.op, h.other_op} for h in hazards]
