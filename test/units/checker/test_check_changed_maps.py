"""Tensor maps that a kernel changes: copies read them through a proxy of their own, after a release and an
acquire, and until they have landed.

Covers: checker/phases/global_memory.py, checker/phases/block_memory.py, checker/phases/op_effects.py,
vocabulary/mbarrier_ops.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.check_harness import check_module, codes, verdict
from helpers.machine_programs import parse

_WG = "#gpu.address_space<workgroup>"
_NAMES = {
    "MAP": "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>",
    "BARS": f"!nvgpu.mbarrier.group<memorySpace = {_WG}>",
    "TILE": f"memref<64xf32, {_WG}>",
}
REPLACE = "nvvm.tensormap.replace field = global_address, new_value = %address in %near : !llvm.ptr<1>, i64"
COPY = """nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes : BARS
    nvgpu.tma.async.load %map[%c0], %full[%c0] to %tile : MAP, BARS -> TILE"""
PUT = """nvgpu.tma.async.store %tile to %map[%c0] : TILE -> MAP
    nvvm.cp.async.bulk.commit.group"""
ACQUIRE = "nvvm.fence.proxy.acquire #nvvm.mem_scope<cta> %map_, %size"
PARTS = {
    "replace": REPLACE,
    "release": "nvvm.fence.proxy.release #nvvm.mem_scope<cta>",
    "meet": "gpu.barrier",
    "acquire": ACQUIRE,
    "copy": COPY,
    "early": "",
    "wait": "nvgpu.mbarrier.try_wait.parity %full[%c0], %false, %ticks : BARS",
    "after": "",
    "meet again": "gpu.barrier",
    "late": REPLACE,
    "end": "",
}


def text_of(changes: dict[str, str], copier: int = 0) -> str:
    """Thread 0 changes a map; thread `copier` copies by it, and thread 0 changes it again."""
    parts = PARTS | changes
    text = f"""
func.func @f(%map_: !llvm.ptr {{llvm.noalias}}, %address: i64, %out: memref<64xf32> {{llvm.noalias}})
    attributes {{gpu.known_block_size = array<i32: 64, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>}} {{
  %tile = memref.alloc() : TILE
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %copier = arith.constant {copier} : index
  %bytes = arith.constant 256 : index
  %ticks = arith.constant 10000000 : index
  %size = arith.constant 128 : i32
  %false = arith.constant false
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %copies = arith.cmpi eq, %t, %copier : index
  %map = builtin.unrealized_conversion_cast %map_ : !llvm.ptr to MAP
  %near = llvm.addrspacecast %map_ : !llvm.ptr to !llvm.ptr<1>
  %full = nvgpu.mbarrier.create -> BARS
  nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader : BARS
  nvvm.fence.mbarrier.init
  gpu.barrier
  scf.if %leader {{
    {parts["replace"]}
    {parts["release"]}
  }}
  {parts["meet"]}
  scf.if %copies {{
    {parts["acquire"]}
    {parts["copy"]}
  }}
  {parts["early"]}
  {parts["wait"]}
  {parts["after"]}
  %v = memref.load %tile[%t] : TILE
  memref.store %v, %out[%t] : memref<64xf32>
  {parts["meet again"]}
  scf.if %leader {{
    {parts["late"]}
  }}
  {parts["end"]}
  return
}}"""
    for name, kind in _NAMES.items():
        text = text.replace(name, kind)
    return text


def said(text: str, **options: Any) -> tuple[str, set[str]]:
    report = check_module(parse(text), **options).report
    return verdict(report), codes(report)


_BEFORE_THE_WAIT = f"scf.if %leader {{\n    {REPLACE}\n  }}"
_STORED = {"copy": PUT, "wait": "", "after": "nvvm.cp.async.bulk.wait_group 0 {read}"}
RIGHT: dict[str, tuple[dict[str, str], int]] = {
    "another thread copies": ({}, 40),
    "the same thread, without a barrier": ({"meet": ""}, 0),
    "released and acquired for the device": (
        {
            "release": PARTS["release"].replace("cta", "gpu"),
            "acquire": ACQUIRE.replace("cta", "gpu"),
        },
        40,
    ),
    "the copy is a store": (_STORED, 40),
    "it is changed once": ({"late": ""}, 40),
}
WRONG: dict[str, tuple[dict[str, str], int, str]] = {
    "no release": ({"release": ""}, 40, "missing-fence"),
    "no release, one thread": ({"release": ""}, 0, "missing-fence"),
    "no acquire": ({"acquire": ""}, 40, "missing-fence"),
    "no acquire, one thread": ({"acquire": ""}, 0, "missing-fence"),
    "an acquire of other bytes": (
        {"acquire": "%other = llvm.getelementptr %map_[128] : (!llvm.ptr) -> !llvm.ptr, i8\n    "
         + ACQUIRE.replace("%map_", "%other")},
        40,
        "missing-fence",
    ),
    "a fence for the async proxy": (
        {"release": "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}"},
        40,
        "missing-fence",
    ),
    "an acquire before the release": ({"release": "", "acquire": f"{ACQUIRE}\n    {PARTS['release']}"}, 0, "missing-fence"),
    "no barrier after the release": ({"meet": ""}, 40, "missing-barrier missing-fence"),
    "changed while a copy reads it": ({"early": _BEFORE_THE_WAIT}, 40, "source-overwritten"),
    "changed while a store reads it": (
        _STORED | {"after": "", "end": "nvvm.cp.async.bulk.wait_group 0"},
        40,
        "source-overwritten",
    ),
    "changed before others know that the store has read it": (
        _STORED | {"meet again": ""},
        40,
        "missing-barrier",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_map_that_is_changed_in_order_is_proven(name: str) -> None:
    changes, copier = RIGHT[name]
    assert said(text_of(changes, copier)) == ("safe", set())


@pytest.mark.parametrize("name", WRONG)
def test_each_way_to_be_wrong_is_named(name: str) -> None:
    changes, copier, code = WRONG[name]
    found, named = said(text_of(changes, copier))
    assert (found, named) == ("unsafe", set(code.split()))


def test_blocks_that_change_one_map_are_not_told_apart() -> None:
    text = text_of({})
    grid = "known_grid_size = array<i32: 1, 1, 1>"
    assert grid in text
    report = check_module(parse(text.replace(grid, grid.replace(": 1", ": 2")))).report
    reasons = {found.reason for found in report.of("hazards") if found.verdict == "unknown"}
    assert reasons == {"other-blocks"}


def test_a_map_that_a_copy_writes_is_not_followed() -> None:
    """What the async proxy has written the fences of maps do not order."""
    put = """%c128 = arith.constant 128 : i32
    %from = llvm.mlir.zero : !llvm.ptr<3>
    nvvm.cp.async.bulk.global.shared.cta %near, %from, %c128 : !llvm.ptr<1>, !llvm.ptr<3>
    nvvm.cp.async.bulk.commit.group
    nvvm.cp.async.bulk.wait_group 0"""
    assert said(text_of({"replace": put}))[0] == "unknown"


def test_a_map_behind_a_loaded_pointer_may_be_what_is_changed() -> None:
    loaded = "%map_ = llvm.load %table : !llvm.ptr -> !llvm.ptr"
    text = text_of({"late": ""}).replace(
        "%map_: !llvm.ptr {llvm.noalias}", "%table: !llvm.ptr, %own: !llvm.ptr"
    )
    text = text.replace("llvm.addrspacecast %map_", "llvm.addrspacecast %own")
    text = text.replace("  %t = gpu.thread_id x", f"  {loaded}\n  %t = gpu.thread_id x")
    assert said(text)[0] == "unknown"
    assert said(text.replace(REPLACE, ""))[0] == "safe"
