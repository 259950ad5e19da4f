"""Races between threads that need no async op: each kernel that races beside one that does not.

The machine runs every kernel, and says the same as the checker.

Covers: checker/conflicts.py, checker/effects.py, checker/thread_grid.py, checker/sites.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text, machine_races
from mlir_async_pipe.checker.explore import Explorer

KERNEL = """
gpu.module @m {{
  gpu.func @k(%A: memref<256xf32> {{llvm.noalias}}, %B: memref<256xf32> {{llvm.noalias}})
      workgroup(%s: memref<128xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %c63 = arith.constant 63 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %far = arith.addi %t, %c64 : index
    %opposite = arith.subi %c63, %t : index
    %half = arith.divui %t, %c2 : index
    %first = arith.cmpi eq, %t, %c0 : index
    %low = arith.cmpi ult, %t, %c32 : index
    {body}
    gpu.return
  }}
}}
"""


def store(where: str) -> str:
    return f"memref.store %zero, %s[{where}] : memref<128xf32, 3>"


def load(where: str) -> str:
    return f"%x_{where[1:]} = memref.load %s[{where}] : memref<128xf32, 3>"


def atomic(where: str) -> str:
    return f"%a_{where[1:]} = memref.atomic_rmw addf %zero, %s[{where}] : (f32, memref<128xf32, 3>) -> f32"


def loop(body: str) -> str:
    return f"scf.for %i = %c0 to %c4 step %c1 {{\n{body}\n}}"


BARRIER = "gpu.barrier"
FENCED = "gpu.barrier memfence [#gpu.address_space<workgroup>]"
OTHER_FENCE = "gpu.barrier memfence [#gpu.address_space<global>]"
SHIFT = """%place = arith.addi %t, %i : index
"""
# Name, a kernel that races, the same kernel mended.
TABLE = {
    "store then load of another thread": (
        [store("%t"), load("%opposite")],
        [store("%t"), BARRIER, load("%opposite")],
    ),
    "load then store of another thread": (
        [load("%opposite"), store("%t")],
        [load("%opposite"), FENCED, store("%t")],
    ),
    "store then store of another thread": (
        [store("%t"), store("%opposite")],
        [store("%t"), store("%far")],
    ),
    "a fence for other memory": (
        [store("%t"), OTHER_FENCE, load("%opposite")],
        [store("%t"), OTHER_FENCE, load("%t")],
    ),
    "all threads store to one place": ([store("%c0")], [f"scf.if %first {{ {store('%c0')} }}"]),
    "two threads store to one place": ([store("%half")], [store("%t")]),
    "one op, two iterations": (
        [loop(f"{SHIFT}{store('%place')}")],
        [loop(f"{SHIFT}{store('%place')}\n{BARRIER}")],
    ),
    "the next iteration overwrites": (
        [loop(f"{store('%t')}\n{BARRIER}\n{load('%opposite')}")],
        [loop(f"{store('%t')}\n{BARRIER}\n{load('%opposite')}\n{BARRIER}")],
    ),
    "a plain store beside an atomic": (
        [atomic("%half"), store("%t")],
        [atomic("%half"), atomic("%opposite")],
    ),
    "the sides of a branch": (
        [f"scf.if %low {{ {store('%t')} }} else {{ {load('%opposite')} }}"],
        [f"scf.if %low {{ {store('%t')} }} else {{ {load('%t')} }}"],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_race_without_async_ops_is_unsafe(name: str) -> None:
    text = KERNEL.format(body="\n".join(TABLE[name][0]))
    checked = check_text(text)
    assert {code for code, _ in checked.unsafe} == {"missing-barrier"}
    assert {code for code, _ in machine_races(text)} == {"missing-barrier"}


@pytest.mark.parametrize("name", TABLE)
def test_its_right_twin_is_safe(name: str) -> None:
    text = KERNEL.format(body="\n".join(TABLE[name][1]))
    checked = check_text(text)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not machine_races(text)


STAGED = """%v = memref.load %s[%t] : memref<64xf32, 3>
  %o = arith.subi %c31, %t : index
  memref.store %v, %s[%o] : memref<64xf32, 3>"""
# Of a block of unknown size one warp certainly runs.
IDS = "%c31 = arith.constant 31 : index"
FORMS = {
    "gpu.launch": f"""
func.func @host(%n: index) {{
  %one = arith.constant 1 : index
  %size = arith.constant 32 : index
  {IDS}
  gpu.launch blocks(%a, %b, %c) in (%d = %one, %e = %one, %f = %one)
             threads(%t, %u, %v2) in (%x = %size, %y = %one, %z = %one) {{
    %s = memref.alloc() : memref<64xf32, 3>
    {STAGED}
    gpu.terminator
  }}
  return
}}""",
    "func.func with a thread id": f"""
func.func @k() {{
  {IDS}
  %t = gpu.thread_id x
  %s = memref.alloc() : memref<64xf32, 3>
  {STAGED}
  return
}}""",
    "llvm.func": """
llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<64 x f32>
llvm.func @k() attributes {nvvm.kernel} {
  %base = llvm.mlir.addressof @s : !llvm.ptr<3>
  %c31 = llvm.mlir.constant(31 : i32) : i32
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %p = llvm.getelementptr %base[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %v = llvm.load %p : !llvm.ptr<3> -> f32
  %o = llvm.xor %t, %c31 : i32
  %q = llvm.getelementptr %base[%o] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  llvm.store %v, %q : f32, !llvm.ptr<3>
  llvm.return
}""",
    "a function that a kernel calls": f"""
func.func private @stage(%t: index, %s: memref<64xf32, 3>) {{
  {IDS}
  {STAGED}
  return
}}
func.func @k() {{
  %t = gpu.thread_id x
  %s = memref.alloc() : memref<64xf32, 3>
  func.call @stage(%t, %s) : (index, memref<64xf32, 3>) -> ()
  return
}}""",
}


@pytest.mark.parametrize("form", FORMS)
def test_kernels_are_found_in_every_form(form: str) -> None:
    checked = check_text(FORMS[form])
    assert len(checked.report.of("checks")) == 1
    assert {code for code, _ in checked.unsafe} == {"missing-barrier"}


def test_a_function_of_the_host_is_not_looked_at() -> None:
    checked = check_text("""func.func @f(%m: memref<4xf32>, %x: f32) {
      %c0 = arith.constant 0 : index
      memref.store %x, %m[%c0] : memref<4xf32>
      return
    }""")
    assert checked.report.of("checks") == ()


def test_a_function_is_judged_where_it_is_called() -> None:
    """Alone, all threads would run the store; its only caller lets one of them."""
    checked = check_text("""
    func.func private @note(%s: memref<4xf32, 3>, %x: f32) {
      %c0 = arith.constant 0 : index
      %t = gpu.thread_id x
      memref.store %x, %s[%c0] : memref<4xf32, 3>
      return
    }
    func.func @k(%x: f32) {
      %c0 = arith.constant 0 : index
      %t = gpu.thread_id x
      %s = memref.alloc() : memref<4xf32, 3>
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first { func.call @note(%s, %x) : (memref<4xf32, 3>, f32) -> () }
      return
    }""")
    (summary,) = checked.report.of("checks")
    assert (summary.function, summary.unsafe, summary.unknown) == ("k", 0, 0)


COPY = """%c = nvgpu.device_async_copy %A[{source}], %s[{place}], 1 : memref<256xf32> to memref<128xf32, 3>
nvvm.cp.async.commit.group
nvvm.cp.async.wait.group 0"""


@pytest.mark.parametrize(
    ("source", "place", "races"),
    [("%t", "%half", True), ("%half", "%half", False), ("%t", "%t", False), ("%c0", "%c1", False)],
)
def test_threads_that_copy_different_elements_to_one_place_race(
    source: str, place: str, races: bool
) -> None:
    """Copies of one element to one place are the same copy made twice."""
    text = KERNEL.format(body=COPY.format(source=source, place=place))
    checked = check_text(text, "nvvm:sm_80")
    assert {code for code, _ in checked.unsafe} == ({"overwrite-in-flight"} if races else set())
    assert not checked.unknown
    assert {code for code, _ in machine_races(text, "nvvm:sm_80")} == (
        {"overwrite-in-flight"} if races else set()
    )


ROWS = """
gpu.module @m {{
  gpu.func @k(%A: memref<64x64xf32> {{llvm.noalias}}) workgroup(%s: memref<16x32xf32, 3>)
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %t = gpu.thread_id x
    %row = arith.divui %t, %c4 : index
    %in_row = arith.remui %t, %c4 : index
    %two = arith.muli %in_row, %c2 : index
    %four = arith.muli %in_row, %c4 : index
    %twice = arith.muli %t, %c2 : index
    %low = arith.remui %row, %c4 : index
    %crossed = arith.xori %in_row, %low : index
    %swizzled = arith.muli %crossed, %c4 : index
    %view = memref.subview %s[0, %twice] [1, 8] [1, 1]
        : memref<16x32xf32, 3> to memref<8xf32, strided<[1], offset: ?>, 3>
    %narrow = memref.reinterpret_cast %s to offset: [0], sizes: [16, 32], strides: [4, 1]
        : memref<16x32xf32, 3> to memref<16x32xf32, strided<[4, 1]>, 3>
    %c = nvgpu.device_async_copy {copy}
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    gpu.return
  }}
}}
"""
TILE = "memref<64x64xf32> to memref<16x32xf32, 3>"


@pytest.mark.parametrize(
    ("copy", "races"),
    [
        # Element (row, 2 + k) of one copy is (row, k) of the next one.
        (f"%A[%row, %two], %s[%row, %two], 4 : {TILE}", False),
        (f"%A[%c0, %two], %s[%row, %two], 4 : {TILE}", False),
        (f"%A[%two, %row], %s[%row, %two], 4 : {TILE}", True),
        (f"%A[%two, %two], %s[%row, %two], 4 : {TILE}", True),
        (f"%A[%row, %c0], %s[%row, %two], 4 : {TILE}", True),
        # What is filled up with zeros has to begin at one place.
        (f"%A[%row, %c0], %s[%row, %c0], 4, %c2 : {TILE}", False),
        (f"%A[%row, %c0], %s[%row, %c0], 4, %in_row : {TILE}", True),
        (f"%A[%row, %two], %s[%row, %two], 4, %c2 : {TILE}", True),
        # Threads 16 apart copy one piece, by other numbers than those of its place.
        (f"%A[%low, %four], %s[%low, %swizzled], 4 : {TILE}", False),
        (f"%A[%row, %four], %s[%low, %swizzled], 4 : {TILE}", True),
        (f"%A[%low, %four], %s[%low, %four], 4, %c2 : {TILE}", False),
        (f"%A[%low, %four], %s[%low, %four], 4, %row : {TILE}", True),
        (f"%A[%low, %four], %s[%low, %four], 4, %c0 : {TILE}", False),
        # The views of two threads, and two rows, overlap.
        (
            "%A[%c0, %c0], %view[%c0], 4 : memref<64x64xf32> to memref<8xf32, strided<[1], offset: ?>, 3>",
            True,
        ),
        (
            "%A[%row, %four], %narrow[%row, %four], 4 : memref<64x64xf32> to memref<16x32xf32, strided<[4, 1]>, 3>",
            True,
        ),
    ],
)
def test_copies_that_overlap_write_the_same_where_they_read_the_same(
    copy: str, races: bool
) -> None:
    checked = check_text(ROWS.format(copy=copy), "nvvm:sm_80")
    assert {code for code, _ in checked.unsafe} == ({"overwrite-in-flight"} if races else set())
    assert not checked.unknown
    found = {code for code, _ in machine_races(ROWS.format(copy=copy), "nvvm:sm_80")}
    assert found == ({"overwrite-in-flight"} if races else set())


def test_copies_of_other_bytes_to_one_place_may_all_fill_it_with_zeros() -> None:
    """Whether they race is decided by a number that the kernel is given: 0 elements, or 4."""
    copy = f"%A[%row, %four], %s[%low, %four], 4, %n : {TILE}"
    text = ROWS.replace("noalias}}", "noalias}}, %n: index").format(copy=copy)
    checked = check_text(text, "nvvm:sm_80")
    assert {code for code, _ in checked.unknown} == {"overwrite-in-flight"}
    assert not checked.unsafe
    assert not machine_races(text, "nvvm:sm_80", trips=[0])
    assert machine_races(text, "nvvm:sm_80", trips=[4])


@pytest.mark.parametrize(("factor", "races"), [(16, False), (15, True)])
def test_places_that_a_thread_counts_through_are_its_own_in_one_run(
    monkeypatch: pytest.MonkeyPatch, factor: int, races: bool
) -> None:
    """Thread t stores to factor * t + i, i < 16: only what meets is followed with its barriers."""
    runs = []
    follow = Explorer.run
    monkeypatch.setattr(Explorer, "run", lambda self: (runs.append(self), follow(self)))
    body = f"""%c16 = arith.constant 16 : index
    %factor = arith.constant {factor} : index
    %first_place = arith.muli %t, %factor : index
    scf.for %i = %c0 to %c16 step %c1 {{
      %place = arith.addi %first_place, %i : index
      memref.store %zero, %D[%place] : memref<1024xf32>
    }}"""
    argument = "@k(%D: memref<1024xf32> {llvm.noalias}, %A"
    text = KERNEL.format(body=body).replace("@k(%A", argument)
    checked = check_text(text)
    assert {code for code, _ in checked.unsafe} == ({"missing-barrier"} if races else set())
    assert not checked.unknown
    assert {code for code, _ in machine_races(text)} == {code for code, _ in checked.unsafe}
    assert (len(runs) > 1) == races


@pytest.mark.parametrize(
    ("condition", "verdict"), [("%low", "unsafe"), ("%some", "unknown"), ("%all", "safe")]
)
def test_a_barrier_that_not_all_threads_reach_is_reported(condition: str, verdict: str) -> None:
    """A half of the block; threads that a number of threads chooses; a number for all."""
    body = f"""%n = memref.dim %D, %c0 : memref<?xf32>
    %some = arith.cmpi ult, %t, %n : index
    %all = arith.cmpi ult, %n, %c4 : index
    scf.if {condition} {{ gpu.barrier }}"""
    text = KERNEL.format(body=body).replace("@k(%A", "@k(%D: memref<?xf32> {llvm.noalias}, %A")
    checked = check_text(text)
    found = {h.verdict for h in checked.report.of("hazards") if h.code == "divergent-barrier"}
    assert found == ({verdict} if verdict != "safe" else set())
    assert len(checked.report.of("hazards")) == len(found)


@pytest.mark.parametrize(
    "between, reasons",
    [(BARRIER, set()), (OTHER_FENCE, set()), (FENCED, {"may-alias"}), ("", {"may-alias"})],
    ids=["barrier", "fences global", "fences workgroup", "nothing"],
)
@pytest.mark.parametrize("copied", [False, True], ids=["load", "copy"])
def test_a_barrier_orders_arguments_that_may_be_one_memory(
    between: str, reasons: set[str], copied: bool
) -> None:
    """Thread t reads A[t] and stores to B[63 - t], which may be what another thread reads."""
    read = "%v = memref.load %A[%t] : memref<256xf32>"
    if copied:
        read = """%c = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<256xf32> to memref<128xf32, 3>
    %g = nvgpu.device_async_create_group %c
    nvgpu.device_async_wait %g {numGroups = 0 : i32}"""
    write = "memref.store %zero, %B[%opposite] : memref<256xf32>"
    text = KERNEL.format(body=f"{read}\n{between}\n{write}").replace(" {llvm.noalias}", "")
    checked = check_text(text)
    assert not checked.unsafe
    assert {hazard.reason for hazard in checked.report.of("hazards")} == reasons
