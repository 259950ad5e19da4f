"""Dynamic shared memory has many names and begins at one address, for every engine.

Covers: vocabulary/memory_names.py, facts/values/memory_roots.py, lowering/scopes/dense_buffers.py
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from helpers.check_harness import check_text, codes, verdict
from helpers.machine_programs import parse
from mlir_async_pipe import bindings, machine, pipeline
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SPACE = "#gpu.address_space<workgroup>"
TILE = f"memref<128xf32, {SPACE}>"

# Ways to write 128 floats at the begin of dynamic shared memory; %NAME is the memref.
NAMES = {
    "gpu": f"""
      %NAME_0 = gpu.dynamic_shared_memory : memref<?xi8, {SPACE}>
      %NAME = memref.view %NAME_0[%c0][] : memref<?xi8, {SPACE}> to {TILE}""",
    "global of floats": f"""
      %NAME_0 = memref.get_global @floats : memref<0xf32, {SPACE}>
      %NAME = memref.reinterpret_cast %NAME_0 to offset: [0], sizes: [128], strides: [1]
        : memref<0xf32, {SPACE}> to {TILE}""",
    "global of bytes": f"""
      %NAME_0 = memref.get_global @bytes : memref<0xi8, {SPACE}>
      %NAME = memref.view %NAME_0[%c0][] : memref<0xi8, {SPACE}> to {TILE}""",
    "global of rows": f"""
      %NAME_0 = memref.get_global @rows : memref<2x0xf32, {SPACE}>
      %NAME = memref.reinterpret_cast %NAME_0 to offset: [0], sizes: [128], strides: [1]
        : memref<2x0xf32, {SPACE}> to {TILE}""",
}
# The same with pointers: how thread %t32 names its float.
POINTERS = {
    "array": "%NAME = llvm.mlir.addressof @array : !llvm.ptr<3>",
    "nested array": "%NAME = llvm.mlir.addressof @nested : !llvm.ptr<3>",
}
GLOBALS = f"""
  memref.global "private" @floats : memref<0xf32, {SPACE}> {{alignment = 16 : i64}}
  memref.global "private" @bytes : memref<0xi8, {SPACE}> {{alignment = 64 : i64}}
  memref.global "private" @rows : memref<2x0xf32, {SPACE}>
  memref.global "private" @own : memref<128xf32, {SPACE}> {{alignment = 16 : i64}}
  llvm.mlir.global internal @array() {{addr_space = 3 : i32}} : !llvm.array<0 x f32>
  llvm.mlir.global external @nested() {{addr_space = 3 : i32}} : !llvm.array<4 x array<0 x i8>>
"""
OWN = f"%NAME = memref.get_global @own : {TILE}"
PAIRS = list(itertools.combinations_with_replacement([*NAMES, *POINTERS], 2))


def store(name: str) -> str:
    if name in POINTERS:
        return f"""{POINTERS[name].replace("NAME", "first")}
          %at = llvm.getelementptr %first[%t32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
          llvm.store %one, %at : f32, !llvm.ptr<3>"""
    return f"""{(OWN if name == "own" else NAMES[name]).replace("NAME", "first")}
      memref.store %one, %first[%t] : {TILE}"""


def load(name: str) -> str:
    if name in POINTERS:
        return f"""{POINTERS[name].replace("NAME", "second")}
          %from = llvm.getelementptr %second[%r32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
          %v = llvm.load %from : !llvm.ptr<3> -> f32"""
    return f"""{NAMES[name].replace("NAME", "second")}
      %v = memref.load %second[%r] : {TILE}"""


def kernel(written: str, read: str, between: str = "") -> str:
    """Thread t writes float t by one name, and reads float 127 - t by another one."""
    return f"""gpu.module @m {{ {GLOBALS}
      gpu.func @k(%out: memref<128xf32> {{llvm.noalias}}) kernel
          attributes {{known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 1, 1, 1>,
                       async_pipe.dynamic_shared_bytes = 512}} {{
        %c0 = arith.constant 0 : index
        %c127 = arith.constant 127 : index
        %one = arith.constant 1.0 : f32
        %t = gpu.thread_id x
        %t32 = arith.index_cast %t : index to i32
        %r = arith.subi %c127, %t : index
        %r32 = arith.index_cast %r : index to i32
        {store(written)}
        {between}
        {load(read)}
        memref.store %v, %out[%t] : memref<128xf32>
        gpu.return
      }} }}"""


@pytest.mark.parametrize(("written", "read"), PAIRS)
def test_two_names_are_one_memory_for_checker_and_machine(written: str, read: str) -> None:
    racy = check_text(kernel(written, read)).report
    assert (verdict(racy), set(codes(racy))) == ("unsafe", {"missing-barrier"})
    assert verdict(check_text(kernel(written, read, "gpu.barrier")).report) == "safe"
    out = np.zeros(128, np.float32)
    run = machine.run(parse(kernel(written, read, "gpu.barrier")), "k", [out])
    assert (run.arrays[0] == 1).all() and not run.races


def test_memory_of_its_own_is_apart() -> None:
    """Nothing is written here where it is read."""
    assert verdict(check_text(kernel("own", "gpu")).report) == "safe"


@pytest.mark.slow
@pytest.mark.parametrize(("written", "read"), PAIRS)
def test_code_stores_where_it_loads(written: str, read: str) -> None:
    code = lower(
        parse(kernel(written, read, "gpu.barrier")), target=Target.of_chip("sm_80"), emit="ptx"
    )
    (declared,) = re.findall(r"^\.extern \.shared \.align (\d+) \.b8 (\w+)\[\];$", code.text, re.M)
    assert int(declared[0]) >= 64
    assert "st.shared" in code.text and "ld.shared" in code.text
    assert len(re.findall(r"^\s*mov\.b(?:32|64)\s+%\w+, [A-Za-z_]\w*;", code.text, re.M)) == 1


AMD = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)


@AMD
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_on_amd_it_begins_after_the_memory_that_the_kernel_declares(name: str) -> None:
    text = kernel("own", name, "gpu.barrier").replace("%v = ", f"{seen('own')}\n%v = ")
    code = lower(parse(text), target=Target.of_chip("gfx942"), emit="isa")
    (kernel_,) = code.kernels
    assert kernel_.workgroup_bytes == 512
    assert "0x200" in code.text or "offset:512" in code.text


@AMD
@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "read"), list(itertools.combinations_with_replacement(NAMES, 2))
)
def test_on_amd_code_stores_where_it_loads(written: str, read: str) -> None:
    text = kernel(written, read, "gpu.barrier")
    code = lower(parse(text), target=Target.of_chip("gfx942"), emit="isa")
    assert "ds_write_b32" in code.text and "ds_read_b32" in code.text


def seen(name: str) -> str:
    """The memory of its own is read too, so that it stays."""
    return f"""%mine = memref.load %first[%r] : {TILE}
      memref.store %mine, %out[%r] : memref<128xf32>"""


@pytest.mark.parametrize("chip", ["sm_80", "gfx942"])
@pytest.mark.parametrize("allocated", [True, False], ids=["allocation", "attribution"])
def test_memory_without_bytes_that_is_no_global_is_refused(allocated: bool, chip: str) -> None:
    """As a global it would become dynamic shared memory, which it is not for anybody else."""
    empty = f"memref<0xf32, {SPACE}>"
    listed, made = f"workgroup(%e : {empty})", ""
    if allocated:
        listed, made = "", f"%e = memref.alloc() : {empty}"
    text = f"""gpu.module @m {{ gpu.func @k() {listed} kernel {{
      {made}
      %f = arith.constant 1.0 : f32
      %c0 = arith.constant 0 : index
      memref.store %f, %e[%c0] : {empty}
      gpu.return }} }}"""
    with pytest.raises(AsyncPipeError) as caught:
        emit = "ptx" if chip == "sm_80" else "isa"
        lower(parse(text), target=Target.of_chip(chip), emit=emit)
    assert caught.value.code == "dynamic-workgroup-alloc"


@pytest.mark.slow
def test_arrays_of_arrays_reserve_their_bytes() -> None:
    text = kernel("array", "array", "gpu.barrier").replace(
        "array<0 x f32>", "array<64 x array<2 x f32>>"
    )
    code = lower(parse(text), target=Target.of_chip("sm_80"), emit="ptx").text
    assert re.search(r"\.shared \.align \d+ \.b8 array\[512\];", code)


LOOP = f"""gpu.module @m {{ {GLOBALS}
  gpu.func @k(%A: memref<4096xf32> {{llvm.noalias}}, %out: memref<128xf32> {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>, async_pipe.dynamic_shared_bytes = 512}} {{
    %c0 = arith.constant 0 : index
    %c127 = arith.constant 127 : index
    %c128 = arith.constant 128 : index
    %c4096 = arith.constant 4096 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %r = arith.subi %c127, %t : index
    TILES
    %sum = scf.for %i = %c0 to %c4096 step %c128 iter_args(%acc = %zero) -> (f32) {{
      %at = arith.addi %i, %t : index
      %copy = nvgpu.device_async_copy %A[%at], %tile[%t], 1 : memref<4096xf32> to {TILE}
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = memref.load %tile[%r] : {TILE}
      %x = arith.addf %v, %acc : f32
      gpu.barrier
      scf.yield %x : f32
    }} {{async_pipe.num_stages = 3 : i64}}
    memref.store %sum, %out[%t] : memref<128xf32>
    gpu.return
  }} }}"""


def test_a_window_that_nothing_else_names_gets_slots() -> None:
    module = parse(LOOP.replace("TILES", NAMES["gpu"].replace("NAME", "tile")))
    pipeline(module)
    assert "memref<3x128xf32" in str(module)


@pytest.mark.parametrize(
    "other",
    [
        f"%o = memref.get_global @floats : memref<0xf32, {SPACE}>\n"
        f"%p = memref.cast %o : memref<0xf32, {SPACE}> to memref<?xf32, {SPACE}>",
        "%o = llvm.mlir.addressof @array : !llvm.ptr<3>\n"
        "%p = llvm.getelementptr %o[4] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f32",
        f"%o = gpu.dynamic_shared_memory : memref<?xi8, {SPACE}>\n"
        f"%p = memref.cast %o : memref<?xi8, {SPACE}> to memref<64xi8, {SPACE}>",
    ],
    ids=["global", "pointer", "cast"],
)
def test_a_window_that_something_else_may_name_gets_none(other: str) -> None:
    tiles = NAMES["gpu"].replace("NAME", "tile") + "\n" + other
    with pytest.raises(AsyncPipeError) as caught:
        pipeline(parse(LOOP.replace("TILES", tiles)))
    assert caught.value.code == "unproven-independence"


def test_a_window_of_a_global_without_bytes_gets_slots_of_dynamic_memory() -> None:
    module = parse(LOOP.replace("TILES", NAMES["global of bytes"].replace("NAME", "tile")))
    pipeline(module)
    assert "async_pipe.dynamic_shared_bytes = 1536" in str(module)


def test_a_global_without_bytes_gets_no_slots_itself() -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipeline(parse(LOOP.replace("TILES", NAMES["global of floats"].replace("NAME", "tile"))))
    assert caught.value.code == "buffer-not-versionable"
