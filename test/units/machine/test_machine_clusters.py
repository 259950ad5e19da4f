"""Blocks of a cluster run together: they copy into each other's memory and meet; races and deadlocks
between them are found, with both sides.

Covers: machine/launch.py, machine/dialects/gpu.py, machine/barrier_phases.py,
machine/warp_order.py, machine/run_kernel.py, vocabulary/launch_ids.py,
vocabulary/pure_ops.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers import cluster_rings
from helpers.check_harness import check_text
from helpers.cluster_rings import HERE_AT_ONCE, ISSUED_BY_ONE, RELAXED, REMOTE_AT_ONCE, TO_THE_BLOCK
from helpers.machine_programs import parse, run
from mlir_async_pipe.bindings.raw_ops import raw, walk_named
from mlir_async_pipe.machine import SCHEDULES
from mlir_async_pipe.machine.launch import COMPLETIONS
from mlir_async_pipe.session.diagnostics import MachineError, UsageError
from mlir_async_pipe.vocabulary.launch_ids import cluster_size

MEET = "nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("completion", [*COMPLETIONS, "random:7"])
def test_blocks_fill_each_others_slots(completion, schedule):
    result = cluster_rings.run(completion, schedule)
    assert result.races == ()
    assert cluster_rings.is_right(result)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_one_block_fills_the_slots_of_both(completion):
    result = cluster_rings.run(completion, **ISSUED_BY_ONE)
    assert result.races == ()
    assert cluster_rings.is_right(result)


MUTANTS = {
    "no remote arrival": ({"arrive_remote": ""}, "deadlock"),
    "no arrival here": ({"arrive_here": ""}, "deadlock"),
    "a relaxed remote arrival": ({"arrive_remote": REMOTE_AT_ONCE}, "missing-barrier"),
    "a remote arrival that releases to its own block": (
        {"arrive_remote": TO_THE_BLOCK},
        "missing-barrier",
    ),
    "a relaxed arrival here": ({"arrive_here": HERE_AT_ONCE}, "missing-barrier"),
    "no wait for empty": ({"wait_empty": ""}, "too-many-arrivals"),
    "no wait for full": ({"wait_full": ""}, "uninitialised-read"),
    "no meeting first": ({"meet_first": "gpu.barrier"}, "missing-barrier"),
    "no fence": ({"fence": ""}, "missing-fence"),
    "relaxed, and no fence": ({"fence": "", "meet_first": RELAXED}, "missing-barrier"),
    "no meeting last": ({"meet_last": ""}, "block-ended"),
    "relaxed last": ({"meet_last": RELAXED}, "block-ended"),
    "only one block": ({"mask": "1"}, "deadlock"),
    "a block too many": ({"mask": "7"}, "out-of-bounds"),
    "too few bytes": ({"bytes": "128"}, "read-in-flight"),
    "too many bytes": ({"bytes": "384"}, "deadlock"),
}


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_whenever_copies_arrive(name, completion):
    changes, code = MUTANTS[name]
    assert code in cluster_rings.run(completion, **changes).race_codes


def test_a_relaxed_arrival_tells_of_fenced_mbarriers():
    """As the PTX ISA has it for fence.mbarrier_init."""
    assert cluster_rings.run(meet_first=RELAXED).races == ()


def test_a_race_between_blocks_names_both_sides():
    for race in cluster_rings.run(meet_first="gpu.barrier").races:
        assert race.other_op == "nvgpu.mbarrier.init"
        # 64 threads a block: one side is in block 0, the other in block 1.
        assert {race.thread // 64, race.other_thread // 64} == {0, 1}


def test_a_deadlock_between_blocks_names_both_sides():
    stuck = [race for race in cluster_rings.run(wait_full="").races if race.code == "deadlock"]
    sides = {race.op for race in stuck}
    assert sides == {"nvgpu.mbarrier.try_wait.parity", "nvvm.cluster.wait"}
    assert {race.other_op for race in stuck} == sides
    assert any("barrier of the cluster: phase 1 lacks" in race.detail for race in stuck)


def kernel(body: str, arguments: str = "%out: memref<?x8xi32>", sizes: str = "32, 1, 1") -> str:
    return f"""
    func.func @f({arguments}) attributes {{gpu.known_block_size = array<i32: {sizes}>}} {{
      {body}
      return
    }}"""


AXES = ("cluster_id", "cluster_block_id", "cluster_dim", "cluster_dim_blocks")


def test_ids_of_a_cluster_of_two_dimensions():
    lines = ["%c0 = arith.constant 0 : index", "%x = gpu.block_id x", "%y = gpu.block_id y"]
    lines += ["%w = gpu.grid_dim x", "%below = arith.muli %y, %w : index"]
    lines.append("%block = arith.addi %below, %x : index")
    values = [f"gpu.{name} {axis}" for name in AXES for axis in "xy"]
    for number, value in enumerate(values):
        lines += [
            f"%v{number} = {value}",
            f"%i{number} = arith.index_cast %v{number} : index to i32",
            f"%n{number} = arith.constant {number} : index",
            f"memref.store %i{number}, %out[%block, %n{number}] : memref<?x8xi32>",
        ]
    given = np.zeros((16, 8), np.int32)
    result = run(kernel("\n".join(lines), sizes="1, 1, 1"), given, grid=(4, 4), warp=1, cluster=2)
    wide = run(
        kernel("\n".join(lines), sizes="1, 1, 1"), given, grid=(4, 4), warp=1, cluster=(2, 4)
    )
    for found, (cx, cy) in ((result, (2, 1)), (wide, (2, 4))):
        expected = [
            [x // cx, y // cy, x % cx, y % cy, 4 // cx, 4 // cy, cx, cy]
            for y in range(4)
            for x in range(4)
        ]
        assert np.array_equal(found.arrays[0], expected)


SHARED = "memref<32xi32, WG>"
# Each block shows its rank + 1, and reads what the other one shows.
EXCHANGE = f"""
  %s = memref.alloc() : {SHARED}
  %t = gpu.thread_id x
  %tt = arith.index_cast %t : index to i32
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
  %row = gpu.cluster_block_id x
  %other = arith.subi %one, %rank : i32
  %shown = arith.addi %rank, %one : i32
  memref.store %shown, %s[%t] : {SHARED}
  FIRST
  %i = memref.extract_aligned_pointer_as_index %s : {SHARED} -> index
  %i64 = arith.index_cast %i : index to i64
  %p = llvm.inttoptr %i64 : i64 to !llvm.ptr<3>
  %q = nvvm.mapa %p, %other : !llvm.ptr<3> -> !llvm.ptr<7>
  %at = llvm.getelementptr %q[%tt] : (!llvm.ptr<7>, i32) -> !llvm.ptr<7>, i32
  %v = llvm.load %at : !llvm.ptr<7> -> i32
  memref.store %v, %out[%row, %c0] : memref<?x8xi32>
  LAST
"""


def exchange(first: str = MEET, last: str = MEET):
    body = EXCHANGE.replace("FIRST", first).replace("LAST", last)
    one = body.replace(
        "memref.store %v", "%z = arith.cmpi eq, %t, %c0 : index\nscf.if %z {\nmemref.store %v"
    )
    one = one.replace("%out[%row, %c0] : memref<?x8xi32>", "%out[%row, %c0] : memref<?x8xi32>\n}")
    return run(kernel(one), np.zeros((2, 8), np.int32), grid=2, cluster=2)


def test_memory_of_another_block_is_read():
    result = exchange()
    assert result.races == ()
    assert result.arrays[0][:, 0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"first": "gpu.barrier"}, "missing-barrier"),
        ({"first": RELAXED}, "missing-barrier"),
        ({"last": ""}, "block-ended"),
        ({"last": "gpu.barrier"}, "block-ended"),
    ],
)
def test_memory_of_another_block_needs_both_meetings(parts, code):
    (race,) = [race for race in exchange(**parts).races if race.code == code]
    assert "llvm.load" in (race.op, race.other_op)


# Thread 0 of block 0 copies 128 bytes into both blocks.
BULK = """
  %s = memref.alloc() : memref<32xi32, WG>
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %c128 = arith.constant 128 : index
  %size = arith.constant 128 : i32
  %three = arith.constant 3 : i16
  %rank = gpu.cluster_block_id x
  %bar = nvgpu.mbarrier.create -> BAR
  %leader = arith.cmpi eq, %t, %c0 : index
  nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %leader : BAR
  nvvm.fence.mbarrier.init
  MEET
  nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %c128, predicate = %leader : BAR
  %zero = arith.cmpi eq, %rank, %c0 : index
  %copies = arith.andi %zero, %leader : i1
  scf.if %copies {
    %i = memref.extract_aligned_pointer_as_index %s : memref<32xi32, WG> -> index
    %i64 = arith.index_cast %i : index to i64
    %to = llvm.inttoptr %i64 : i64 to !llvm.ptr<7>
    %b64 = nvgpu.mbarrier.get %bar[%c0] : BAR -> i64
    %full = llvm.inttoptr %b64 : i64 to !llvm.ptr<3>
    %from = llvm.addrspacecast %x : !llvm.ptr to !llvm.ptr<1>
    nvvm.cp.async.bulk.shared.cluster.global %to, %from, %full, %size multicast_mask = %three : !llvm.ptr<7>, !llvm.ptr<1>
  }
  WAIT
"""
WAITS = """nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %c128 : BAR
  %v = memref.load %s[%t] : memref<32xi32, WG>
  memref.store %v, %out[%rank, %t] : memref<2x32xi32>"""


def bulk(wait: str = WAITS, completion: str = "late"):
    body = BULK.replace("WAIT", wait).replace("MEET", MEET)
    text = kernel(body, "%x: !llvm.ptr, %out: memref<2x32xi32>")
    text = text.replace("BAR", "!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = 1>")
    given = (np.arange(32, dtype=np.int32), np.zeros((2, 32), np.int32))
    return run(text, *given, grid=2, cluster=2, completion=completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_bulk_copy_into_both_blocks(completion):
    result = bulk(completion=completion)
    assert result.races == ()
    assert np.array_equal(result.arrays[1], np.tile(np.arange(32), (2, 1)))


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_block_may_not_end_before_a_copy_into_it(completion):
    result = bulk(f"scf.if %zero {{\n{WAITS}\n}}", completion)
    (race,) = result.races
    assert (race.code, race.op) == ("block-ended", "func.func")
    assert race.other_op == "nvvm.cp.async.bulk.shared.cluster.global"


SUM = """
  %c0 = arith.constant 0 : index
  %t = gpu.thread_id x
  %rank = gpu.cluster_block_id x
  %first = arith.cmpi eq, %rank, %c0 : index
  %r = arith.index_cast %rank : index to i32
  %leader = arith.cmpi eq, %t, %c0 : index
  %writes = arith.andi %first, %leader : i1
  %not = arith.cmpi ne, %rank, %c0 : index
  %reads = arith.andi %not, %leader : i1
  scf.if %writes {
    memref.store %r, %out[%c0, %c0] : memref<?x8xi32>
  }
  MEET
  scf.if %reads {
    memref.store %r, %out[%c0, %c0] : memref<?x8xi32>
  }
"""


def test_global_memory_is_ordered_where_blocks_meet():
    given = np.zeros((1, 8), np.int32)
    for meet, codes in ((MEET, set()), ("gpu.barrier", {"missing-barrier"})):
        result = run(kernel(SUM.replace("MEET", meet)), given, grid=2, cluster=2)
        assert set(result.race_codes) == codes
    apart = run(kernel(SUM.replace("MEET", MEET)), given, grid=4, cluster=2)
    assert set(apart.race_codes) == {"cross-block"}


def test_threads_that_have_ended_count_as_arrived():
    body = """%c0 = arith.constant 0 : index
      %rank = gpu.cluster_block_id x
      %first = arith.cmpi eq, %rank, %c0 : index
      scf.if %first {
        nvvm.cluster.arrive
        nvvm.cluster.wait
      }"""
    assert run(kernel(body), np.zeros((1, 8), np.int32), grid=2, cluster=2).races == ()


def test_two_arrivals_without_a_wait():
    result = run(
        kernel("nvvm.cluster.arrive\n" + MEET), np.zeros((1, 8), np.int32), grid=2, cluster=2
    )
    assert result.race_codes == {"too-many-arrivals"}


@pytest.mark.parametrize("before", ["", MEET], ids=["first", "after a meeting"])
def test_a_wait_without_an_arrival_waits_for_itself(before):
    result = run(
        kernel(f"{before}\nnvvm.cluster.wait"), np.zeros((1, 8), np.int32), grid=2, cluster=2
    )
    assert result.race_codes == {"deadlock"}


def test_what_has_no_semantics_is_refused_where_it_stands():
    body = "nvvm.tcgen05.relinquish_alloc_permit"
    with pytest.raises(MachineError, match="it runs in blocks that run alone") as caught:
        run(kernel(body), np.zeros((1, 8), np.int32), grid=2, cluster=2)
    assert caught.value.code == "unsupported-op"
    assert caught.value.diagnostic.place.line > 0


@pytest.mark.parametrize(
    "options", [{"grid": 3, "cluster": 2}, {"grid": 2, "cluster": 2, "threads": 33}]
)
def test_clusters_cover_the_grid_with_blocks_of_whole_warps(options):
    with pytest.raises(UsageError, match="cluster"):
        run(kernel(""), np.zeros((1, 8), np.int32), **options)


LAUNCHED = """
module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k() kernel { gpu.return }
    gpu.func @stated() kernel attributes {known_cluster_size = array<i32: 4, 2, 1>} { gpu.return }
    gpu.func @alone() kernel { gpu.return }
    llvm.func @lowered() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 2>} { llvm.return }
  }
  func.func @host() {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    gpu.launch_func @m::@k clusters in (%c2, %c1, %c1) blocks in (%c2, %c1, %c1) threads in (%c1, %c1, %c1)
    gpu.launch_func @m::@alone blocks in (%c2, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
}"""


def test_the_cluster_size_that_a_kernel_or_its_launch_states():
    module = parse(LAUNCHED)
    kernels = walk_named(raw(module.operation), lambda name: name in ("gpu.func", "llvm.func"))
    assert [cluster_size(op) for op in kernels] == [(2, 1, 1), (4, 2, 1), None, (2, 1, 1)]


REMOTE = """
!B = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>
func.func @f() attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %bar = nvgpu.mbarrier.create -> !B
  %one = arith.constant 1 : i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %leader : !B
  gpu.barrier
  %i = nvgpu.mbarrier.get %bar[%c0] : !B -> i64
  %p = llvm.inttoptr %i : i64 to !llvm.ptr<3>
  scf.if %leader {
    %q = nvvm.mapa %p, %one : !llvm.ptr<3> -> !llvm.ptr<7>
    nvvm.mbarrier.arrive %q : !llvm.ptr<7>
  }
  nvgpu.mbarrier.try_wait.parity %bar[%c0], %false, %c1 : !B
  return
}"""
HERE = {
    "%q = nvvm.mapa %p, %one : !llvm.ptr<3> -> !llvm.ptr<7>": "",
    "arrive %q : !llvm.ptr<7>": "arrive %p : !llvm.ptr<3>",
}


def test_an_arrival_in_another_block_is_not_taken_for_one_here():
    assert check_text(REMOTE).unknown
    assert not check_text(REMOTE).unsafe
    here = REMOTE
    for old, new in HERE.items():
        here = here.replace(old, new)
    assert not check_text(here).unknown | check_text(here).unsafe


WAITS_THERE = {
    "wait": "nvvm.mbarrier.try_wait.parity %any, %parity, %ticks : !llvm.ptr, i32, i32",
    "test": "%over = nvvm.mbarrier.try_wait %any, %parity : !llvm.ptr, i32 -> i1",
}


@pytest.mark.parametrize("name", WAITS_THERE)
def test_a_wait_for_an_mbarrier_of_another_block_is_refused(name):
    """The PTX ISA has none: mbarrier.try_wait and test_wait take an address of the block itself."""
    there = f"""%there_ = nvgpu.mbarrier.get %full[%s] : BARS -> i64
    %here = llvm.inttoptr %there_ : i64 to !llvm.ptr<3>
    %its = nvvm.mapa %here, %other : !llvm.ptr<3> -> !llvm.ptr<7>
    %any = llvm.addrspacecast %its : !llvm.ptr<7> to !llvm.ptr
    %parity = arith.extui %odd : i1 to i32
    %ticks = arith.constant 1000 : i32
    {WAITS_THERE[name]}"""
    with pytest.raises(MachineError, match="an mbarrier of another block") as caught:
        cluster_rings.run(wait_full=there)
    assert caught.value.code == "unsupported-op"
    assert caught.value.diagnostic.place.line > 0


NVVM_COPY = """%base = memref.extract_aligned_pointer_as_index %buffer : memref<2x64xf32, WG> -> index
%line = arith.muli %s, %c64 : index
%element = arith.addi %line, %column : index
%element32 = arith.index_cast %element : index to i32
%base64 = arith.index_cast %base : index to i64
%block_ = llvm.inttoptr %base64 : i64 to !llvm.ptr<3>
%own = llvm.getelementptr %block_[%element32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
%goal = llvm.addrspacecast %own : !llvm.ptr<3> to !llvm.ptr<7>
%full64 = nvgpu.mbarrier.get %full[%s] : BARS -> i64
%fullp = llvm.inttoptr %full64 : i64 to !llvm.ptr<3>
%map = builtin.unrealized_conversion_cast %x : MAP to !llvm.ptr
%from32 = arith.index_cast %from : index to i32
nvvm.cp.async.bulk.tensor.shared.cluster.global %goal, %map, %fullp, box[%from32] multicast_mask = %mask : !llvm.ptr<7>, !llvm.ptr"""


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_the_copy_of_nvvm_lands_in_both_blocks(completion):
    result = cluster_rings.run(completion, copy=NVVM_COPY)
    assert result.races == ()
    assert cluster_rings.is_right(result)
    assert cluster_rings.run(completion, copy=NVVM_COPY, mask="2").race_codes == {"deadlock"}
