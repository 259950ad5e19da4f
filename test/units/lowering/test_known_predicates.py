"""Instructions of inline assembly whose predicate is a constant.

Covers: lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import lower
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm.lower_nvvm import settle_predicates
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

BARS = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>"
KERNEL = f"""
gpu.module @kernels {{
  gpu.func @one(%x: i32) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %p = arith.constant KNOWN
    %full = nvgpu.mbarrier.create -> {BARS}
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %p : {BARS}
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("line", "settled"),
    [
        ("\t@0 cp.async.bulk.x [%rd1], [%rd2, {%r5,%r5} ], [%r1];\n", ""),
        (
            "\t@-1 mbarrier.init.shared.b64 [%r1], %r5;\n",
            "\tmbarrier.init.shared.b64 [%r1], %r5;\n",
        ),
        ("\t@1 mbarrier.init.shared.b64 [%r1], %r5;\n", "\tmbarrier.init.shared.b64 [%r1], %r5;\n"),
        ("\t@%p1 mbarrier.init.shared.b64 [%r1], %r5;\n",) * 2,
        ("\t@%p0 bra $L__BB0_2;\n",) * 2,
        ("\t@!%p1 bra $L__BB0_2;\n",) * 2,
    ],
)
def test_one_line(line: str, settled: str) -> None:
    assert settle_predicates(f"// one\n{line}ret;\n") == f"// one\n{settled}ret;\n"


@pytest.mark.parametrize(("known", "inits"), [("false", 0), ("true", 1)])
def test_ptxas_takes_a_predicate_that_the_back_end_knows(known: str, inits: int) -> None:
    with new_context():
        module = ir.Module.parse(KERNEL.replace("KNOWN", known))
        text = lower(module, target="nvvm:sm_90a", emit="ptx").text
    assert text.count("mbarrier.init") == inits
    assert "@%p" not in text
    if find_tool("ptxas"):
        with new_context():
            module = ir.Module.parse(KERNEL.replace("KNOWN", known))
            assert lower(module, target="nvvm:sm_90a", emit="cubin").binary
