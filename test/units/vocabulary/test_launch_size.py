"""The launches of a kernel say how large its blocks are, and those of another one do not.

Covers: vocabulary/launch_ids.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import Operation, walk
from mlir_async_pipe.vocabulary.launch_ids import block_size, name_at_launch

LAUNCH = """gpu.launch_func @{name}::@"k.1" blocks in (%c1, %c1, %c1) threads in (%c{size}, %c1, %c1)
  args(%x : i32)"""


def two_modules(*launches: tuple[str, int]) -> ir.Module:
    """Two gpu.modules with a kernel each, and their launches."""
    kernel = 'gpu.func @"k.1"(%x: i32) kernel { gpu.return }'
    calls = "\n".join(LAUNCH.format(name=name, size=size) for name, size in launches)
    return ir.Module.parse(f"""module attributes {{gpu.container_module}} {{
      gpu.module @a {{ {kernel} }}
      gpu.module @b {{ {kernel} }}
      func.func @host(%x: i32) {{
        %c1 = arith.constant 1 : index
        %c32 = arith.constant 32 : index
        %c64 = arith.constant 64 : index
        {calls}
        return
      }} }}""")


def kernels(module: ir.Module) -> list[Operation]:
    return [op for op in walk(module) if op.name == "gpu.func"]


@pytest.mark.parametrize(
    ("launches", "sizes"),
    [
        ([("a", 32)], [(32, 1, 1), None]),
        ([("a", 32), ("b", 64)], [(32, 1, 1), (64, 1, 1)]),
        ([("a", 32), ("a", 64)], [None, None]),
        ([("b", 64), ("b", 64)], [None, (64, 1, 1)]),
    ],
)
def test_kernels_of_one_name_have_launches_of_their_own(launches, sizes) -> None:
    with new_context():
        module = two_modules(*launches)
        assert [block_size(kernel) for kernel in kernels(module)] == sizes


def test_a_kernel_is_named_after_its_module() -> None:
    with new_context():
        module = two_modules()
        assert [name_at_launch(kernel) for kernel in kernels(module)] == ["a::k.1", "b::k.1"]


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32', (256, 1, 1)),
        (
            '"ttg.num-warps" = 4 : i32, "ttg.total-num-warps" = 6 : i32, '
            '"ttg.threads-per-warp" = 32 : i32',
            (192, 1, 1),
        ),
        ('"ttg.num-warps" = 4 : i32', None),
    ],
)
def test_modules_of_triton_say_how_many_warps_run(attributes, size) -> None:
    with new_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(f"module attributes {{{attributes}}} {{ llvm.func @f() }}")
        (function,) = [op for op in walk(module) if op.name == "llvm.func"]
        assert block_size(function) == size
