"""Kernels as front ends hand them to their last passes: a launch in its host function, maps that the host encodes, memory
of a launch by casts of memrefs, phases as bits of a variable, and sums that a loop carries in pairs.

Covers: checker/as_read.py, facts/values/same_values.py, facts/values/same_values.py,
facts/values/same_values.py, facts/values/memory_roots.py, waits/ssa/carried_structs.py, checker/phases/phase_paths.py,
vocabulary/launch_ids.py, vocabulary/tensor_boxes.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import parse
from mlir_async_pipe import check

SLOTS = 2
SMEM = "#gpu.address_space<workgroup>"
BARRIERS = 18432


def host(name: str, at: int, sizes: tuple[int, ...], code: int = 5) -> str:
    """The host's code that encodes a map of a box at a byte of %maps."""
    stores = "\n".join(
        f"""  %{name}s{n} = arith.constant {size} : i64
  %{name}p{n} = llvm.getelementptr %{name}box[{n}] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %{name}s{n}, %{name}p{n} : i64, !llvm.ptr"""
        for n, size in enumerate(sizes)
    )
    return f"""
  %{name}n = arith.constant {len(sizes)} : i64
  %{name}code = arith.constant {code} : i64
  %{name}box = llvm.alloca %{name}n x i64 : (i64) -> !llvm.ptr
{stores}
  %{name}map = llvm.getelementptr %maps[{at}] : (!llvm.ptr) -> !llvm.ptr, i8
  call @mosaic_gpu_init_tma_desc(%{name}map, %args, %{name}code, %{name}n, %args, %args, %{name}n, %{name}box)
    : (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> ()"""


def barriers(name: str, first: int, count: int) -> str:
    """Mbarriers in dynamic memory, through casts of a memref to a descriptor; %{name} points to the first."""
    inits = "\n".join(
        f"""  %{name}{n} = llvm.getelementptr %{name}[{n}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  nvvm.mbarrier.init %{name}{n}, %{name}count, predicate = %first : !llvm.ptr<3>, i32, i1"""
        for n in range(SLOTS)
    )
    descriptor = "!llvm.struct<(ptr<3>, ptr<3>, i64, array<1 x i64>, array<1 x i64>)>"
    return f"""
  %{name}count = arith.constant {count} : i32
  %{name}at = arith.constant {first} : index
  %{name}all = gpu.dynamic_shared_memory : memref<?xi8, {SMEM}>
  %{name}view = memref.view %{name}all[%{name}at][] : memref<?xi8, {SMEM}> to memref<{SLOTS}xi64, {SMEM}>
  %{name}s = builtin.unrealized_conversion_cast %{name}view : memref<{SLOTS}xi64, {SMEM}> to {descriptor}
  %{name}base = llvm.extractvalue %{name}s[1] : {descriptor}
  %{name}offset = llvm.extractvalue %{name}s[2] : {descriptor}
  %{name}bytes = llvm.mul %{name}offset, %eight : i64
  %{name}number = llvm.ptrtoint %{name}base : !llvm.ptr<3> to i64
  %{name}sum = llvm.add %{name}number, %{name}bytes : i64
  %{name} = llvm.inttoptr %{name}sum : i64 to !llvm.ptr<3>
{inits}"""


def tile(name: str, first: int, rows: int) -> str:
    """The address of a slot of a ring of tiles of {rows} x 64, and its first byte as a number."""
    whole, one = (
        f"memref<{SLOTS}x{rows}x64xf16, {SMEM}>",
        f"memref<{rows}x64xf16, strided<[64, 1], offset: ?>, {SMEM}>",
    )
    other = f"memref<{SLOTS}x{rows // 8}x8x64xf16, {SMEM}>"
    descriptor = "!llvm.struct<(ptr<3>, ptr<3>, i64, array<2 x i64>, array<2 x i64>)>"
    return f"""
    %{name}all = gpu.dynamic_shared_memory : memref<?xi8, {SMEM}>
    %{name}at = arith.constant {first} : index
    %{name}v = memref.view %{name}all[%{name}at][] : memref<?xi8, {SMEM}> to {whole}
    %{name}there = builtin.unrealized_conversion_cast %{name}v : {whole} to {other}
    %{name}back = builtin.unrealized_conversion_cast %{name}there : {other} to {whole}
    %{name}w = memref.subview %{name}back[%slot, 0, 0] [1, {rows}, 64] [1, 1, 1] : {whole} to {one}
    %{name}s = builtin.unrealized_conversion_cast %{name}w : {one} to {descriptor}
    %{name}base = llvm.extractvalue %{name}s[1] : {descriptor}
    %{name}offset = llvm.extractvalue %{name}s[2] : {descriptor}
    %{name}bytes = llvm.mul %{name}offset, %two : i64
    %{name}number = llvm.ptrtoint %{name}base : !llvm.ptr<3> to i64
    %{name}sum = llvm.add %{name}number, %{name}bytes : i64
    %{name} = llvm.inttoptr %{name}sum : i64 to !llvm.ptr<3>"""


def phase(variable: str, name: str, ring: str) -> str:
    """A wait for the phase of a slot that a bit of a variable names, which it flips."""
    return f"""
    %{name}bits = memref.load %{variable}[] : memref<i32>
    %{name}mask = arith.shli %c1, %slot32 : i32
    %{name}and = arith.andi %{name}bits, %{name}mask : i32
    %{name}set = arith.cmpi ne, %{name}and, %c0 : i32
    %{name}next = arith.xori %{name}bits, %{name}mask : i32
    memref.store %{name}next, %{variable}[] : memref<i32>
    %{name}parity = arith.extui %{name}set : i1 to i32
    %{name} = llvm.getelementptr %{ring}[%slot32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
    nvvm.mbarrier.try_wait.parity %{name}, %{name}parity, %ticks : !llvm.ptr<3>, i32, i32"""


def product(number: int, sums: list[str]) -> tuple[str, list[str]]:
    """One wgmma in assembly that adds 16 of k to four registers, which are vectors of one number."""
    text = (
        "{ .reg .pred p; setp.ne.b32 p, $10, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{$0,$1,$2,$3}, $8, $9, p, $11, $12, $13, $14; }"
    )
    kinds, struct = (
        ", ".join(["vector<1xf32>"] * 4),
        f"!llvm.struct<({', '.join(['vector<1xf32>'] * 4)})>",
    )
    lines = [
        f"%k{number} = llvm.mlir.constant({2 * number} : i64) : i64",
        f"%da{number} = llvm.add %da, %k{number} : i64",
        f"%db{number} = llvm.add %db, %k{number} : i64",
        f'%p{number} = llvm.inline_asm has_side_effects "{text}", "=f,=f,=f,=f,0,1,2,3,l,l,n,n,n,n,n" '
        f"{', '.join(sums)}, %da{number}, %db{number}, %one, %one, %one, %none, %none : "
        f"({kinds}, i64, i64, i32, i32, i32, i32, i32) -> {struct}",
        *(f"%r{number}_{n} = llvm.extractvalue %p{number}[{n}] : {struct}" for n in range(4)),
    ]
    return "\n    ".join(lines), [f"%r{number}_{n}" for n in range(4)]


def pairs(name: str, registers: list[str]) -> str:
    return "\n    ".join(
        f"%{name}{n} = vector.shuffle {registers[2 * n]}, {registers[2 * n + 1]} [0, 1] : vector<1xf32>, vector<1xf32>"
        for n in range(2)
    )


def singles(pair: str, number: int) -> tuple[str, list[str]]:
    lines = [
        f"%x{number}{n} = vector.extract_strided_slice {pair} {{offsets = [{n}], sizes = [1], strides = [1]}} : "
        "vector<2xf32> to vector<1xf32>"
        for n in range(2)
    ]
    return "\n    ".join(lines), [f"%x{number}{n}" for n in range(2)]


def copy(name: str, at: int, bytes_a_thread: int) -> str:
    return f"""
    %{name}given = llvm.getelementptr %given[{at}] : (!llvm.ptr) -> !llvm.ptr, i8
    %{name}expected = arith.constant {bytes_a_thread} : i32
    nvvm.mbarrier.arrive.expect_tx %full_now, %{name}expected : !llvm.ptr<3>, i32 -> i64
    llvm.inline_asm has_side_effects "bar.sync $0, 128;", "r" %group1 : (i32) -> ()
    nvvm.cp.async.bulk.tensor.shared.cluster.global %{name}, %{name}given, %full_now, box[%c0, %c0] predicate = %leader : !llvm.ptr<3>, !llvm.ptr"""


def kernel(encoded: str = "", between: str = "", fence: str = "nvvm.wgmma.fence.aligned") -> str:
    """Two warpgroups: the second copies tiles to two slots, the first multiplies them, eight times each."""
    slices = [singles(f"%s{n}", n) for n in range(2)]
    registers = [one for _, found in slices for one in found]
    products = []
    for number in range(2):
        text, registers = product(number, registers)
        products.append(text)
    return f"""
module {{
func.func private @mosaic_gpu_init_tma_desc(!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr)
func.func @host(%args: !llvm.ptr) {{
  %n = arith.constant 1 : i64
  %maps = llvm.alloca %n x !llvm.array<256 x i8> {{alignment = 64 : i64}} : (i64) -> !llvm.ptr{host("a", 0, (64, 64))}{host("b", 128, (8, 64))}{encoded}
  %all = llvm.load %maps : !llvm.ptr -> !llvm.array<256 x i8>
  %g1 = arith.constant 1 : index
  %threads = arith.constant 256 : index
  %bytes = arith.constant {BARRIERS + 64} : i32
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %g1, %gy = %g1, %gz = %g1)
    threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %g1, %sz = %g1) dynamic_shared_memory_size %bytes {{
  %given = builtin.unrealized_conversion_cast %all : !llvm.array<256 x i8> to !llvm.ptr
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %c5 = arith.constant 5 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %c31 = arith.constant 31 : i32
  %everybody = arith.constant -1 : i32
  %ticks = arith.constant 10000000 : i32
  %two = arith.constant 2 : i64
  %eight = arith.constant 8 : i64
  %one = llvm.mlir.constant(1 : i32) : i32
  %none = llvm.mlir.constant(0 : i32) : i32
  %idx = gpu.thread_id x
  %ix = arith.index_cast %idx : index to i32
  %idy = gpu.thread_id y
  %iy = arith.index_cast %idy : index to i32
  %dx = gpu.block_dim x
  %bdx = arith.index_cast %dx : index to i32
  %row = arith.muli %iy, %bdx : i32
  %tid = arith.addi %ix, %row : i32
  %own_warp = arith.shrui %tid, %c5 : i32
  %warp = nvvm.shfl.sync idx %everybody, %own_warp, %c0, %c31 : i32 -> i32
  %own_group = arith.shrui %tid, %c7 : i32
  %group = nvvm.shfl.sync idx %everybody, %own_group, %c0, %c31 : i32 -> i32
  %group1 = arith.addi %own_group, %c1 : i32
  %elected = nvvm.elect.sync -> i1
  %warp0 = arith.cmpi eq, %warp, %c0 : i32
  %first = arith.andi %warp0, %elected : i1
  %in_group = arith.remui %warp, %c4 : i32
  %leads = arith.cmpi eq, %in_group, %c0 : i32
  %leader = arith.andi %leads, %elected : i1
  %full_bits = memref.alloca() : memref<i32>
  memref.store %c0, %full_bits[] : memref<i32>
  %empty_bits = memref.alloca() : memref<i32>
  memref.store %c0, %empty_bits[] : memref<i32>{barriers("full", BARRIERS, 256)}{barriers("empty", BARRIERS + 16, 128)}
  nvvm.fence.mbarrier.init
  gpu.barrier
  %other = arith.cmpi ne, %group, %c1 : i32
  %side32 = arith.extui %other : i1 to i32
  %side = arith.index_cast %side32 : i32 to index
  scf.index_switch %side
  case 0 {{
    scf.for %i = %c0 to %c8 step %c1 : i32 {{
    %slot32 = arith.remui %i, %c2 : i32
    %slot = arith.index_cast %slot32 : i32 to index
    %again = arith.cmpi sge, %i, %c2 : i32
    scf.if %again {{{phase("empty_bits", "empty_now", "empty")}
    }}
    %full_now = llvm.getelementptr %full[%slot32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64{tile("a", 0, 64)}{tile("b", 16384, 8)}{copy("a", 0, 64)}{copy("b", 128, 8)}
    }}
    scf.yield
  }}
  default {{
    %zero = arith.constant dense<0.0> : vector<2xf32>
    {fence}
    %r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%s0 = %zero, %s1 = %zero) -> (vector<2xf32>, vector<2xf32>) : i32 {{
    %slot32 = arith.remui %i, %c2 : i32
    %slot = arith.index_cast %slot32 : i32 to index{phase("full_bits", "full_now", "full")}{tile("a", 0, 64)}{tile("b", 16384, 8)}
    %mask = arith.constant 262143 : i64
    %four = arith.constant 4 : i64
    %bits = arith.constant {(1 << 62) | (64 << 32)} : i64
    %na = llvm.ptrtoint %a : !llvm.ptr<3> to i64
    %ma = llvm.and %na, %mask : i64
    %ua = llvm.lshr %ma, %four : i64
    %da = llvm.or %ua, %bits : i64
    %nb = llvm.ptrtoint %b : !llvm.ptr<3> to i64
    %mb = llvm.and %nb, %mask : i64
    %ub = llvm.lshr %mb, %four : i64
    %db = llvm.or %ub, %bits : i64
    {slices[0][0]}
    {slices[1][0]}
    {products[0]}
    {products[1]}
    {pairs("t", registers)}
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    %free = llvm.getelementptr %empty[%slot32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
    llvm.inline_asm has_side_effects "mbarrier.arrive.release.cta.shared::cta.b64 _, [$0], 1;", "r" %free : (!llvm.ptr<3>) -> ()
    {between}
    scf.yield %t0, %t1 : vector<2xf32>, vector<2xf32>
    }}
    scf.yield
  }}
  gpu.terminator
  }}
  return
}}
}}"""


def found(text: str) -> tuple[str, set[str]]:
    """The verdict, and the codes of what is certain, or why it is not known."""
    report = check(parse(text), assume_noalias_arguments=True)
    (summary,) = report.of("checks")
    if summary.unsafe:
        return "unsafe", {d.code for d in report.diagnostics if d.severity == "error"}
    return ("unknown", set(summary.reasons)) if summary.unknown else ("proven", set())


def test_a_ring_of_tensor_copies_in_a_launch_is_proven() -> None:
    assert found(kernel()) == ("proven", set())


@pytest.mark.parametrize(
    "old, new, codes",
    [
        # Nobody waits until a slot is free.
        ("%again = arith.cmpi sge, %i, %c2 : i32", "%again = arith.cmpi sge, %i, %c8 : i32", {"too-many-arrivals"}),
        # Products are not waited for before their slot is given back.
        ("nvvm.wgmma.wait.group.sync.aligned 0", "nvvm.wgmma.wait.group.sync.aligned 1", {"missing-barrier"}),
        # The other parity; a bit that is never flipped.
        ("memref.store %c0, %full_bits", "memref.store %c1, %full_bits", {"deadlock"}),
        ("memref.store %full_nownext, %full_bits", "memref.store %full_nowbits, %full_bits", {"deadlock"}),
        # Fewer bytes than the boxes have, and more.
        ("arith.constant 64 : i32", "arith.constant 32 : i32", {"wrong-bytes"}),
        ("%bs0 = arith.constant 8 : i64", "%bs0 = arith.constant 16 : i64", {"wrong-bytes"}),
        # An arrival too many is waited for.
        ("%emptycount = arith.constant 128", "%emptycount = arith.constant 129", {"deadlock"}),
        # The other slot is read.
        ("%bw = memref.subview %bback[%slot, 0, 0]", "%bw = memref.subview %bback[%idy, 0, 0]", {"missing-barrier"}),
        # Threads write sums after the fence.
        ("nvvm.wgmma.fence.aligned", "", {"missing-register-fence"}),
        # Sums are read before their product is waited for.
        ("nvvm.wgmma.commit.group.sync.aligned", "%q = arith.addf %t0, %t0 : vector<2xf32>\n    nvvm.wgmma.commit.group.sync.aligned", {"read-in-flight", "missing-register-fence"}),
    ],
)  # fmt: skip
def test_broken_siblings_are_found(old: str, new: str, codes: set[str]) -> None:
    assert old in kernel()
    head, _, rest = kernel().rpartition(old)
    assert found(head + new + rest) == ("unsafe", codes)


@pytest.mark.parametrize(
    "old, new",
    [
        # The size of a box is not known, or stored twice; what is encoded is of another type, by another function.
        ("%as0 = arith.constant 64 : i64", "%as0 = llvm.ptrtoint %args : !llvm.ptr to i64"),
        ("llvm.store %as0, %ap0 : i64, !llvm.ptr", "llvm.store %as0, %ap0 : i64, !llvm.ptr\n  llvm.store %n, %ap0 : i64, !llvm.ptr"),
        ("%acode = arith.constant 5 : i64", "%acode = arith.constant 0 : i64"),
        ("%amap = llvm.getelementptr %maps[0]", "%amap = llvm.getelementptr %maps[64]"),
        ("%bmap = llvm.getelementptr %maps[128]", "%bmap = llvm.getelementptr %maps[0]"),
        ("mosaic_gpu_init_tma_desc", "some_function"),
    ],
)  # fmt: skip
def test_boxes_that_are_not_known(old: str, new: str) -> None:
    assert old in kernel()
    assert found(kernel().replace(old, new)) == ("unknown", {"unknown-bytes"})


def of_groups(arrives: str = "%group", waits: str = "%group", reads: str = "%group") -> str:
    """Each warpgroup has its tile brought by an mbarrier of its own, by a pointer that its number makes, and loads from it."""
    return f"""
llvm.mlir.global internal @bars() {{addr_space = 3 : i32, alignment = 8 : i64}} : !llvm.array<2 x i64>
llvm.mlir.global internal @tiles() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<16384 x i8>
llvm.func @k(%map: !llvm.ptr {{llvm.byval = !llvm.array<128 x i8>}}) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 256>}} {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c7 = llvm.mlir.constant(7 : i32) : i32
  %c127 = llvm.mlir.constant(127 : i32) : i32
  %c128 = llvm.mlir.constant(128 : i32) : i32
  %bytes = llvm.mlir.constant(64 : i32) : i32
  %ticks = llvm.mlir.constant(100000 : i32) : i32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 256> : i32
  %bars = llvm.mlir.addressof @bars : !llvm.ptr<3>
  %second = llvm.getelementptr %bars[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64
  %first = llvm.icmp "eq" %tid, %c0 : i32
  nvvm.mbarrier.init %bars, %c128, predicate = %first : !llvm.ptr<3>, i32, i1
  nvvm.mbarrier.init %second, %c128, predicate = %first : !llvm.ptr<3>, i32, i1
  nvvm.fence.mbarrier.init
  nvvm.barrier
  %group = llvm.lshr %tid, %c7 : i32
  %other = llvm.xor %group, %c1 : i32
  %in = llvm.and %tid, %c127 : i32
  %leads = llvm.icmp "eq" %in, %c0 : i32
  %tiles = llvm.mlir.addressof @tiles : !llvm.ptr<3>
  %to = llvm.getelementptr %tiles[0, {reads}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<2 x array<8192 x i8>>
  %own = llvm.getelementptr %tiles[%group] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<8192 x i8>
  %bar = llvm.getelementptr %bars[{arrives}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  %t = nvvm.mbarrier.arrive.expect_tx %bar, %bytes : !llvm.ptr<3>, i32 -> i64
  nvvm.cp.async.bulk.tensor.shared.cluster.global %own, %map, %bar, box[%c0, %c0] predicate = %leads {{async_pipe.box = memref<64x64xf16>}} : !llvm.ptr<3>, !llvm.ptr
  %at = llvm.getelementptr %bars[{waits}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64
  nvvm.mbarrier.try_wait.parity %at, %c0, %ticks : !llvm.ptr<3>, i32, i32
  %x = llvm.load %to : !llvm.ptr<3> -> f16
  llvm.return
}}"""


@pytest.mark.parametrize(
    ("changed", "verdict", "codes"),
    [
        ({}, "proven", set()),
        ({"arrives": "%c0"}, "unsafe", {"too-many-arrivals"}),
        ({"waits": "%other"}, "unsafe", {"read-in-flight"}),
        ({"reads": "%other"}, "unsafe", {"missing-barrier"}),
        # Each thread at an mbarrier of its own.
        ({"waits": "%tid"}, "unknown", {"lanes-apart"}),
    ],
)
def test_mbarriers_of_each_warpgroup(
    changed: dict[str, str], verdict: str, codes: set[str]
) -> None:
    assert found(of_groups(**changed)) == (verdict, codes)


# A register of a struct is taken for a number, which the next block alone uses.
TAKEN_FOR_LATER = """
llvm.func @f(%sums: !llvm.struct<(f32, f32)>, %some: i1, %out: !llvm.ptr<1>) attributes {nvvm.kernel, nvvm.maxntid = array<i32: 1>} {
  %x = llvm.extractvalue %sums[0] : !llvm.struct<(f32, f32)>
  %bits = llvm.bitcast %x : f32 to i32
  llvm.cond_br %some, ^one, ^two
^one:
  llvm.store %bits, %out : i32, !llvm.ptr<1>
  llvm.br ^two
^two:
  llvm.return
}
"""


def test_a_move_of_a_register_that_another_block_uses_stays():
    found = check_text(TAKEN_FOR_LATER)
    assert found.accesses == 1
    assert not found.unsafe
