"""Workgroup memory as front ends have it: every kind has versions, or loads ahead and says why.

Each kernel copies 128 floats an iteration through a tile that other threads read, pipelined with three
stages, and gives what it gives as written, whenever copies arrive.

Covers: pipeliner/normalise/own_buffers.py, facts/values/memory_roots.py, vocabulary/memory_names.py
"""

from __future__ import annotations

import pytest

from helpers.pipelined_copies import SM_80, pipelined_and_run
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session.diagnostics import PipelineError

WG = "#gpu.address_space<workgroup>"
TILE = f"memref<128xf32, {WG}>"
BYTES = f"memref<1024xi8, {WG}>"


def kernel(
    before: str = "",
    module: str = "",
    fill: str = f"vector.store %v, %tile[%mine] : {TILE}, vector<4xf32>",
    use: str = f"%w = vector.load %tile[%theirs] : {TILE}, vector<4xf32>",
    attribution: str = "",
    noalias: str = "{llvm.noalias}",
) -> str:
    return f"""
gpu.module @m {{
  {module}
  gpu.func @f(%A: memref<1024xf32> {noalias}, %B: memref<1024xf32> {noalias}) {attribution}
      kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %c1024 = arith.constant 1024 : index
    %c4 = arith.constant 4 : index
    %c31 = arith.constant 31 : index
    %t = gpu.thread_id x
    %mine = arith.muli %t, %c4 : index
    %other = arith.subi %c31, %t : index
    %theirs = arith.muli %other, %c4 : index
    %m64 = arith.index_cast %mine : index to i64
    %o64 = arith.index_cast %theirs : index to i64
    {before}
    scf.for %i = %c0 to %c1024 step %c128 {{
      %at = arith.addi %i, %mine : index
      %v = vector.load %A[%at] : memref<1024xf32>, vector<4xf32>
      {fill}
      gpu.barrier
      {use}
      vector.store %w, %B[%at] : memref<1024xf32>, vector<4xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""


def part(kind: str) -> dict[str, str]:
    """Fill and use of a view of another type than the tile's."""
    return {
        "fill": f"vector.store %v, %tile[%mine] : {kind}, vector<4xf32>",
        "use": f"%w = vector.load %tile[%theirs] : {kind}, vector<4xf32>",
    }


def uninitialized(kind: str) -> str:
    return f'memref.global "private" @s : {kind} = uninitialized'


VIEW = f"%tile = memref.view %bytes[%c512][] : {BYTES} to {TILE}"
SECOND = f"memref<128xf32, strided<[1], offset: 128>, {WG}>"
COPIED = {
    "allocation": kernel(f"%tile = memref.alloc() : {TILE}"),
    "attribution": kernel(attribution=f"workgroup(%tile : {TILE})"),
    "global": kernel(f"%tile = memref.get_global @s : {TILE}", uninitialized(TILE)),
    "window of bytes": kernel(f"%bytes = memref.alloc() : {BYTES}\n{VIEW}"),
    "window of a global": kernel(
        f"%bytes = memref.get_global @s : {BYTES}\n{VIEW}", uninitialized(BYTES)
    ),
    "window of dynamic memory": kernel(
        f"%bytes = gpu.dynamic_shared_memory : memref<?xi8, {WG}>\n"
        + VIEW.replace("1024xi8", "?xi8")
    ),
    "two names of one global": kernel(
        f"%bytes = memref.get_global @s : {BYTES}\n{VIEW}\n"
        f"%bytes2 = memref.get_global @s : {BYTES}\n"
        f"%tile2 = memref.view %bytes2[%c512][] : {BYTES} to {TILE}",
        uninitialized(BYTES),
        use=f"%w = vector.load %tile2[%theirs] : {TILE}, vector<4xf32>",
    ),
    "half of an allocation": kernel(
        f"%both = memref.alloc() : memref<2x128xf32, {WG}>\n"
        "%tile = memref.subview %both[1, 0] [1, 128] [1, 1]"
        f" : memref<2x128xf32, {WG}> to {SECOND}",
        **part(SECOND),
    ),
    "rows of an allocation": kernel(
        f"%rows = memref.alloc() : memref<32x4xf32, {WG}>\n"
        f"%tile = memref.collapse_shape %rows [[0, 1]] : memref<32x4xf32, {WG}> into {TILE}"
    ),
}
POINTER = """
      %{to} = llvm.getelementptr %base[{at}] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32"""
PUT = "\n      llvm.store %v, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>"
GET = "\n      %w = llvm.load %q {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>"
POINTERS = {
    "fill": POINTER.format(to="p", at="%m64") + PUT,
    "use": POINTER.format(to="q", at="%o64") + GET,
}
ADDRESS = "%base = llvm.mlir.addressof @s : !llvm.ptr<3>"
LLVM_GLOBAL = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<128 x f32>"
REGISTERS = {
    "global of LLVM": kernel(ADDRESS, LLVM_GLOBAL, **POINTERS),
    "window of a global of LLVM": kernel(
        "%all = llvm.mlir.addressof @s : !llvm.ptr<3>\n"
        "%base = llvm.getelementptr %all[512] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8",
        LLVM_GLOBAL.replace("128 x f32", "1024 x i8"),
        **POINTERS,
    ),
    "one pointer for load and store": kernel(
        ADDRESS + POINTER.format(to="p", at="%m64"),
        LLVM_GLOBAL,
        fill=PUT,
        use=GET.replace("%q", "%p"),
    ),
    "overlapping windows": kernel(
        f"%bytes = memref.alloc() : {BYTES}\n{VIEW}\n"
        f"%far = memref.view %bytes[%c0][] : {BYTES} to memref<256xf32, {WG}>",
        use=f"%further = arith.addi %theirs, %c128 : index\n"
        f"%w = vector.load %far[%further] : memref<256xf32, {WG}>, vector<4xf32>",
    ),
}


def ran(text: str) -> tuple[object, set[str]]:
    """What pipelining reports, after the result ran as the program does; and the names of its ops."""
    with new_context():
        module, report = pipelined_and_run(text)
        return report, {op.name for op in walk(module.operation)}


@pytest.mark.parametrize("name", COPIED)
def test_a_buffer_gets_three_versions_and_asynchronous_copies(name):
    report, ops = ran(COPIED[name])
    (made,) = report.of("loops")
    assert [buffer.versions for buffer in made.buffers] == [3]
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert "memref.view" not in ops or "gpu.dynamic_shared_memory" in ops


@pytest.mark.parametrize("name", REGISTERS)
def test_what_cannot_be_copied_asynchronously_has_its_loads_ahead(name):
    report, _ = ran(REGISTERS[name])
    assert [entry.code for entry in report.diagnostics if entry.code != "barriers-dropped"] == [
        "through-registers"
    ]
    # A second version saves a barrier.
    assert all(b.versions <= 2 for loop in report.of("loops") for b in loop.buffers)


def test_a_window_at_an_odd_place_keeps_it():
    with new_context():
        text = COPIED["window of bytes"].replace(
            "%c512 = arith.constant 512", "%c512 = arith.constant 516"
        )
        module = ir.Module.parse(text)
        pipeline(module, SM_80)
        assert "memref.view" in str(module)


SUBSPAN = (
    '"hal.interface.binding.subspan"(%c0) {{binding = {} : index}} : (index) -> memref<1024xf32>'
)


def bindings(first: int, second: int) -> str:
    """The kernel on two bindings instead of its arguments."""
    names = f"%A = {SUBSPAN.format(first)}\n%B = {SUBSPAN.format(second)}\n"
    text = COPIED["allocation"].replace("%tile = memref.alloc", names + "%tile = memref.alloc")
    return text.replace(
        "gpu.func @f(%A: memref<1024xf32> {llvm.noalias}, %B: memref<1024xf32> {llvm.noalias})",
        "gpu.func @f()",
    )


def pipelined(text: str, **options: bool) -> list[int]:
    with new_context():
        report = pipeline(ir.Module.parse(text), SM_80, **options)
    return [wait.count for wait in report.of("waits")]


@pytest.mark.parametrize(
    "text", [bindings(0, 1), kernel(f"%tile = memref.alloc() : {TILE}", noalias="")]
)
def test_what_a_kernel_is_given_is_apart_where_the_caller_says_so(text):
    with pytest.raises(PipelineError) as error:
        pipelined(text)
    assert error.value.code == "unproven-independence"
    assert any("assume-noalias-arguments" in n.message for n in error.value.diagnostic.notes)
    assert pipelined(text, assume_noalias_arguments=True) == [1, 1, 0]


def test_one_binding_is_never_apart_from_itself():
    with pytest.raises(PipelineError, match="may read what"):
        pipelined(bindings(1, 1), assume_noalias_arguments=True)
