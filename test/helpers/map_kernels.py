"""A kernel that writes what its tensor copies read, and reads what its tensor stores wrote, with every
part open to change.

x[t] = t; fence; barrier                  rows of x for the copy
copy x -> tile; wait; v = tile[63 - t]
x[t] = 2 v                                what the copy has read
row[t] = v; fence; barrier
store row -> y; commit; wait; barrier
copy y -> tile; wait
out[t] = tile[t] + y[t]

The names of the parts are the keys of `changes`.
"""

from __future__ import annotations

import re

import numpy as np

from helpers.tensor_kernels import Ring

_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
_WG = "#gpu.address_space<workgroup>"
GLOBAL = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}"
SHARED = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
ALL = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}"
_LOAD = "nvgpu.tma.async.load %{}[{}], %full[%c0] to %tile, predicate = %leader : MAP, BARS -> TILE"
_EXPECT = "nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader : BARS"
_OVERWRITE = "memref.store %double, %x[%t] : memref<128xf32>"
_WAIT = "nvgpu.mbarrier.try_wait.parity %full[%c0], %{}, %ticks : BARS"
_READ = "%v = memref.load %tile[%mirrored] : TILE\n%double = arith.addf %v, %v : f32"
PARTS = {
    "write": "memref.store %number, %x[%t] : memref<128xf32>",
    "fence x": GLOBAL,
    "meet x": "gpu.barrier",
    "copy x": f"{_EXPECT}\n{_LOAD.format('a', '%c0')}",
    "early": "",
    "wait x": _WAIT.format("false"),
    "read": _READ,
    "overwrite": _OVERWRITE,
    "store": "nvgpu.tma.async.store %row to %b[%c0], predicate = %leader : TILE -> MAP",
    "commit": "nvvm.cp.async.bulk.commit.group",
    "wait y": "nvvm.cp.async.bulk.wait_group 0",
    "meet y": "gpu.barrier",
    "copy y": f"{_EXPECT}\n{_LOAD.format('b', '%c0')}",
    "late": "",
    "wait again": _WAIT.format("true"),
    "read y": "%w = memref.load %y[%t] : memref<128xf32>",
    "end": "",
}
_BOTH = f"{PARTS['write']}\nmemref.store %number, %tile[%t] : TILE"
# The parts of one that is right, and stays so.
RIGHT = {
    "as it is": {},
    "a fence for all": {"fence x": ALL},
    "a fenced tile that the copy overwrites": {"write": _BOTH, "fence x": ALL},
    "another place": {"early": "memref.store %number, %x[%far] : memref<128xf32>"},
    "the store waits at the end": {
        "wait y": "",
        "meet y": "",
        "copy y": "",
        "wait again": "",
        "read y": "%w = arith.addf %v, %v : f32",
        "end": "nvvm.cp.async.bulk.wait_group 0 {read}",
    },
    "another place of y": {
        "late": "nvgpu.tma.async.store %row to %b[%c64], predicate = %leader : TILE -> MAP\n"
        "nvvm.cp.async.bulk.commit.group",
        "end": "nvvm.cp.async.bulk.wait_group 0 {read}",
    },
}
# What is wrong with others, and the code that says so.
WRONG = {
    "no fence of x": ({"fence x": ""}, "missing-fence"),
    "a fence of shared memory": ({"fence x": SHARED}, "missing-fence"),
    "a fence of mbarriers": ({"fence x": "nvvm.fence.mbarrier.init"}, "missing-fence"),
    "no fence of a tile that the copy overwrites": ({"write": _BOTH}, "missing-fence"),
    "no barrier after the fence": ({"meet x": ""}, "missing-barrier"),
    "a store before the wait": (
        {"early": "memref.store %number, %x[%t] : memref<128xf32>"},
        "source-overwritten",
    ),
    "a tensor store where a copy reads": (
        {
            "late": "nvgpu.tma.async.store %row to %b[%c0], predicate = %leader : TILE -> MAP\n"
            "nvvm.cp.async.bulk.commit.group",
            "end": "nvvm.cp.async.bulk.wait_group 0",
        },
        "source-overwritten",
    ),
    "no wait for the store": (
        {"wait y": "", "end": "nvvm.cp.async.bulk.wait_group 0"},
        "read-in-flight",
    ),
    "a wait for its reads": (
        {"wait y": "nvvm.cp.async.bulk.wait_group 0 {read}"},
        "read-in-flight",
    ),
    "a wait for all but one": (
        {"wait y": "nvvm.cp.async.bulk.wait_group 1", "end": "nvvm.cp.async.bulk.wait_group 0"},
        "read-in-flight",
    ),
    "no group": ({"commit": ""}, "unwaited-copy"),
    "no barrier after the wait": ({"meet y": "", "copy y": "", "wait again": ""}, "not-visible"),
    "a store where one is in flight": (
        {
            "copy y": "",
            "wait again": "",
            "wait y": "",
            "meet y": "memref.store %number, %y[%t] : memref<128xf32>\ngpu.barrier",
            "read y": "%w = arith.addf %v, %v : f32",
            "end": "nvvm.cp.async.bulk.wait_group 0",
        },
        "overwrite-in-flight",
    ),
    "a store where a copy reads": (
        {"late": "memref.store %number, %y[%t] : memref<128xf32>"},
        "source-overwritten",
    ),
    "a tensor store over another one": (
        {
            "commit": "nvgpu.tma.async.store %tile to %b[%c0], predicate = %leader : TILE -> MAP\n"
            "nvvm.cp.async.bulk.commit.group"
        },
        "overwrite-in-flight",
    ),
}


def map_text(changes: dict[str, str] | None = None) -> str:
    """The kernel, with some of its parts changed; its tensor maps are made of the memrefs."""
    parts = PARTS | (changes or {})
    text = f"""
func.func @f(%x: memref<128xf32>, %y: memref<128xf32> {{llvm.noalias}}, %out: memref<64xf32> {{llvm.noalias}})
    attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %tile = memref.alloc() : TILE
  %row = memref.alloc() : TILE
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %bytes = arith.constant 256 : index
  %ticks = arith.constant 10000000 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %mirrored = arith.subi %c63, %t : index
  %far = arith.addi %t, %c64 : index
  %whole = arith.index_cast %t : index to i32
  %number = arith.sitofp %whole : i32 to f32
  %any_x = memref.cast %x : memref<128xf32> to memref<*xf32>
  %any_y = memref.cast %y : memref<128xf32> to memref<*xf32>
  %a = nvgpu.tma.create.descriptor %any_x box[%c64] : memref<*xf32> -> MAP
  %b = nvgpu.tma.create.descriptor %any_y box[%c64] : memref<*xf32> -> MAP
  %full = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : BARS
  nvvm.fence.mbarrier.init
  gpu.barrier
  {parts["write"]}
  {parts["fence x"]}
  {parts["meet x"]}
  {parts["copy x"]}
  {parts["early"]}
  {parts["wait x"]}
  {parts["read"]}
  {parts["overwrite"]}
  memref.store %v, %row[%t] : TILE
  {SHARED}
  gpu.barrier
  {parts["store"]}
  {parts["commit"]}
  {parts["wait y"]}
  {parts["meet y"]}
  {parts["copy y"]}
  {parts["late"]}
  {parts["wait again"]}
  {parts["read y"]}
  %u = memref.load %tile[%t] : TILE
  %sum = arith.addf %u, %w : f32
  memref.store %sum, %out[%t] : memref<64xf32>
  {parts["end"]}
  return
}}"""
    names = {"MAP": _MAP, "BARS": f"!nvgpu.mbarrier.group<memorySpace = {_WG}>"}
    names["TILE"] = f"memref<64xf32, {_WG}>"
    for name, kind in names.items():
        text = text.replace(name, kind)
    return text


def given_text(changes: dict[str, str], maps: tuple[str, str] = ("x_", "y_")) -> str:
    """The same kernel that is given its tensor maps as pointers of these names: what they describe is
    not to be seen."""
    pointers = "".join(f"%{name}: !llvm.ptr, " for name in dict.fromkeys(maps))
    text = map_text(changes).replace("@f(", f"@f({pointers}")
    for name, memref in zip(maps, ("x", "y"), strict=True):
        text = text.replace(
            f"nvgpu.tma.create.descriptor %any_{memref} box[%c64] : memref<*xf32> -> ",
            f"builtin.unrealized_conversion_cast %{name} : !llvm.ptr to ",
        )
    return text


def arguments() -> list[np.ndarray]:
    """x, y and out."""
    return [np.zeros(128, np.float32), np.zeros(128, np.float32), np.zeros(64, np.float32)]


def in_place(ring: Ring, *, further: int = 0, given: bool = False) -> str:
    """A ring of copies whose readers store tile t where it came from, or `further` tiles on; the tensor
    map is `given` to the kernel, or made of the memref."""
    text = ring.text()
    size = 64 * (ring.tiles + further) * ring.executions
    (made,) = re.findall(r"%x = builtin.unrealized_conversion_cast %x_ : !llvm.ptr to .*", text)
    kind = made.split(" to ", 1)[1]
    place = f"""%first_ = arith.muli %tile, %c64 : index
%further = arith.constant {64 * further} : index
%from_ = arith.addi %first_, %further : index
%own = arith.addi %from_, %t : index
memref.store %v, %z[%own] : memref<{size}xf32>"""
    text = text.replace("memref.store %v, %out[%tile, %t] : memref<?x64xf32>", place)
    if given:
        return text.replace("%out: memref<?x64xf32> {llvm.noalias}", f"%z: memref<{size}xf32>")
    text = text.replace(made, "").replace("%x_: !llvm.ptr", f"%z: memref<{size}xf32>")
    return text.replace(
        "%t = gpu.thread_id x",
        f"%t = gpu.thread_id x\n%any = memref.cast %z : memref<{size}xf32> to memref<*xf32>\n"
        f"%x = nvgpu.tma.create.descriptor %any box[%c64] : memref<*xf32> -> {kind}",
    )
