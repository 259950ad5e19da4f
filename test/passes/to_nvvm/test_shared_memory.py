"""Workgroup memory of large kernels: one dynamic allocation, asked for at launch.

Covers: lowering/nvvm/shared_memory.py, facts/values/memory_roots.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name, walk
from mlir_async_pipe.chips.target import CHIPS
from mlir_async_pipe.lowering.nvvm.shared_memory import (
    DYNAMIC_BYTES,
    DynamicShared,
    ask_at_launch,
    globalise_allocations,
    move_large_kernels,
)
from mlir_async_pipe.session.diagnostics import LoweringError

WG = "#gpu.address_space<workgroup>"
KIB_32 = f"memref<8192xf32, {WG}>"
KIB_16 = f"memref<4096xf32, {WG}>"


def use(memory: str, kind: str) -> str:
    return f"memref.store %x, %{memory}[%i] : {kind}\n"


def kernel(name: str, body: str, workgroup: str = "", attributes: str = "") -> str:
    listed = f"workgroup({workgroup}) " if workgroup else ""
    given = f"attributes {{{attributes}}} " if attributes else ""
    return (
        f"gpu.func @{name}(%x : f32, %i : index) {listed}kernel {given}{{\n{body}gpu.return\n}}\n"
    )


def device(name: str, body: str) -> str:
    return f"func.func @{name}(%x : f32, %i : index) {{\n{body}return\n}}\n"


def call(name: str) -> str:
    return f"func.call @{name}(%x, %i) : (f32, index) -> ()\n"


def global_(name: str, kind: str) -> str:
    return f'memref.global "private" @{name} : {kind} {{alignment = 16 : i64}}\n'


def get(name: str, kind: str) -> str:
    return f"%{name} = memref.get_global @{name} : {kind}\n{use(name, kind)}"


def moved(text: str, host: str = "", chip: str = "sm_80") -> tuple[DynamicShared, str]:
    with new_context():
        module = ir.Module.parse(
            f"module attributes {{gpu.container_module}} {{ gpu.module @k {{ {text} }} {host} }}"
        )
        gpu_module = next(op for op in walk(module) if op.name == "gpu.module")
        globalise_allocations(gpu_module)
        shared = move_large_kernels(gpu_module, CHIPS[chip])
        ask_at_launch(module.operation, symbol_name(gpu_module), shared)
        assert module.operation.verify()
        return shared, str(module)


def test_a_kernel_that_fits_stays_static() -> None:
    shared, text = moved(kernel("f", use("a", KIB_32), f"%a : {KIB_32}"))
    assert shared.bytes_of == {}
    assert "dynamic_shared" not in text


def test_attributions_lie_one_after_the_other() -> None:
    body = use("a", KIB_32) + use("b", KIB_32)
    shared, text = moved(kernel("f", body, f"%a : {KIB_32}, %b : {KIB_32}"))
    assert shared.bytes_of == {"f": 65536}
    assert "arith.constant 32768 : index" in text
    assert "workgroup(" not in text


def test_allocations_and_attributions_share_the_dynamic_memory() -> None:
    body = f"%b = memref.alloc() : {KIB_32}\n{use('a', KIB_32)}{use('b', KIB_32)}"
    shared, text = moved(kernel("f", body, f"%a : {KIB_32}"))
    assert shared.bytes_of == {"f": 65536}
    assert "memref.alloc" not in text and "memref.get_global" not in text


def test_what_a_called_function_uses_counts_and_moves_too() -> None:
    text = (
        global_("b", KIB_32)
        + device("helper", get("b", KIB_32))
        + kernel("f", use("a", KIB_32) + call("helper"), f"%a : {KIB_32}")
    )
    shared, result = moved(text)
    assert shared.bytes_of == {"f": 65536}
    assert "memref.get_global" not in result


def test_a_small_kernel_that_shares_a_global_with_a_large_one_asks_for_it() -> None:
    text = (
        global_("b", KIB_32)
        + kernel("large", use("a", KIB_32) + get("b", KIB_32), f"%a : {KIB_32}")
        + kernel("small", get("b", KIB_32))
        + kernel("other", use("c", KIB_16), f"%c : {KIB_16}")
    )
    shared, _ = moved(text)
    assert shared.bytes_of == {"large": 65536, "small": 32768}


def test_a_small_kernel_asks_only_up_to_the_last_global_that_it_shares() -> None:
    """Of the two globals of the large kernel the shared one comes first, whatever their names."""
    text = (
        global_("a", KIB_32)
        + global_("b", KIB_16)
        + kernel("large", get("a", KIB_32) + get("b", KIB_16) + use("c", KIB_32), f"%c : {KIB_32}")
        + kernel("small", get("b", KIB_16))
    )
    shared, _ = moved(text)
    assert shared.bytes_of == {"large": 81920, "small": 16384}


def test_the_static_part_of_a_small_kernel_counts_beside_what_moved() -> None:
    """Its global is the last of three, so it asks for 96 KiB, and 16 KiB more are static: sm_86
    has 99 KiB."""
    text = (
        "".join(global_(name, KIB_32) for name in "abc")
        + kernel("large", "".join(get(name, KIB_32) for name in "abc"))
        + kernel("second", get("a", KIB_32) + get("b", KIB_32))
        + kernel("small", get("c", KIB_32) + use("s", KIB_16), f"%s : {KIB_16}")
    )
    with pytest.raises(LoweringError) as caught:
        moved(text, chip="sm_86")
    assert caught.value.code == "workgroup-memory"
    shared, _ = moved(text, chip="sm_80")
    assert shared.bytes_of == {"large": 98304, "second": 65536, "small": 98304}


def test_what_moves_lies_after_the_dynamic_memory_of_a_small_kernel_too() -> None:
    body = (
        f"%d = gpu.dynamic_shared_memory : memref<?xi8, {WG}>\n"
        "%c0 = arith.constant 0 : index\n"
        f"%v = memref.view %d[%c0][] : memref<?xi8, {WG}> to {KIB_16}\n"
    )
    text = (
        global_("b", KIB_32)
        + kernel("large", use("a", KIB_32) + get("b", KIB_32), f"%a : {KIB_32}")
        + kernel("small", body + use("v", KIB_16) + get("b", KIB_32))
    )
    shared, _ = moved(text)
    assert shared.bytes_of == {"large": 16384 + 65536, "small": 16384 + 32768}


def test_dynamic_memory_of_the_input_stays_where_it_is() -> None:
    body = (
        f"%d = gpu.dynamic_shared_memory : memref<?xi8, {WG}>\n"
        "%c0 = arith.constant 0 : index\n"
        f"%v = memref.view %d[%c0][] : memref<?xi8, {WG}> to {KIB_16}\n"
    )
    body += use("v", KIB_16) + use("a", KIB_32) + use("b", KIB_32)
    shared, text = moved(kernel("f", body, f"%a : {KIB_32}, %b : {KIB_32}"))
    assert shared.bytes_of == {"f": 16384 + 65536}
    assert "arith.constant 16384 : index" in text


def test_dynamic_memory_at_unknown_places_is_refused_unless_its_size_is_given() -> None:
    body = (
        f"%d = gpu.dynamic_shared_memory : memref<?xi8, {WG}>\n"
        f"%v = memref.view %d[%i][] : memref<?xi8, {WG}> to {KIB_16}\n"
    )
    body += use("v", KIB_16) + use("a", KIB_32) + use("b", KIB_32)
    with pytest.raises(LoweringError) as caught:
        moved(kernel("f", body, f"%a : {KIB_32}, %b : {KIB_32}"))
    assert caught.value.code == "dynamic-shared-conflict"
    given = kernel("f", body, f"%a : {KIB_32}, %b : {KIB_32}", f"{DYNAMIC_BYTES} = 20480 : i64")
    assert moved(given)[0].bytes_of == {"f": 20480 + 65536}


def test_the_size_that_the_input_gives_is_kept_and_asked_for() -> None:
    text = kernel("f", "", attributes=f"{DYNAMIC_BYTES} = 1024 : i64")
    host = """func.func @host(%n : index, %x : f32) {
      gpu.launch_func @k::@f blocks in (%n, %n, %n) threads in (%n, %n, %n)
        args(%x : f32, %n : index)
      return
    }"""
    shared, result = moved(text, host)
    assert shared.bytes_of == {"f": 1024}
    assert "arith.constant 1024 : i32" in result


def test_a_launch_that_asks_for_less_is_refused() -> None:
    text = kernel("f", "", attributes=f"{DYNAMIC_BYTES} = 1024 : i64")
    host = """func.func @host(%n : index, %x : f32) {
      %few = arith.constant 512 : i32
      gpu.launch_func @k::@f blocks in (%n, %n, %n) threads in (%n, %n, %n)
        dynamic_shared_memory_size %few args(%x : f32, %n : index)
      return
    }"""
    with pytest.raises(LoweringError) as caught:
        moved(text, host)
    assert caught.value.code == "dynamic-shared-conflict"


def test_more_than_the_chip_has_is_refused() -> None:
    names = "abcdef"
    body = "".join(use(name, KIB_32) for name in names)
    text = kernel("f", body, ", ".join(f"%{name} : {KIB_32}" for name in names))
    with pytest.raises(LoweringError) as caught:
        moved(text)
    assert caught.value.code == "workgroup-memory"
    assert moved(text, chip="sm_90")[0].bytes_of == {"f": 6 * 32768}


def test_an_allocation_that_outlives_its_iteration_is_refused() -> None:
    body = f"""
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %first = memref.alloc() : {KIB_16}
      %last = scf.for %j = %c0 to %i step %c1 iter_args(%m = %first) -> ({KIB_16}) {{
        %next = memref.alloc() : {KIB_16}
        scf.yield %next : {KIB_16}
      }}
    """
    with pytest.raises(LoweringError) as caught:
        moved(kernel("f", body))
    assert caught.value.code == "workgroup-alloc-escapes"


def test_barriers_and_llvm_globals_count_and_stay_static() -> None:
    """32 KiB move; 16 KiB of an LLVM global and 24 bytes of barriers are static beside them."""
    barriers = (
        "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 3>"
    )
    body = f"""
      %b = nvgpu.mbarrier.create -> {barriers}
      %g = llvm.mlir.addressof @fixed : !llvm.ptr<3>
    """
    text = (
        "llvm.mlir.global internal @fixed() {addr_space = 3 : i32} : !llvm.array<4096 x f32>\n"
        + kernel("f", body + use("a", KIB_32), f"%a : {KIB_32}")
        + kernel("g", body + use("a", KIB_16), f"%a : {KIB_16}")
    )
    shared, result = moved(text)
    assert shared.bytes_of == {"f": 32768}
    assert result.count("workgroup(") == 1


def test_what_stays_static_counts_against_the_chip() -> None:
    text = (
        "llvm.mlir.global internal @fixed() {addr_space = 3 : i32} : !llvm.array<4096 x f32>\n"
        + kernel(
            "f",
            "%g = llvm.mlir.addressof @fixed : !llvm.ptr<3>\n"
            + "".join(use(name, KIB_32) for name in "abc"),
            ", ".join(f"%{name} : {KIB_32}" for name in "abc"),
        )
    )
    with pytest.raises(LoweringError) as caught:
        moved(text, chip="sm_86")
    assert caught.value.code == "workgroup-memory"
    assert moved(text, chip="sm_80")[0].bytes_of == {"f": 98304}
