"""Counts are read back from PTX and machine code; what cannot be right is refused.

Covers: lowering/nvvm/lower_nvvm.py, lowering/nvvm/cubin.py, lowering/nvvm/ptxas.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.lowering.nvvm.cubin import MachineLoop, parse_assembly
from mlir_async_pipe.lowering.nvvm.lower_nvvm import check_calls, read_ptx
from mlir_async_pipe.lowering.nvvm.ptxas import Resources, parse_verbose
from mlir_async_pipe.session.diagnostics import LoweringError

PTX = """
.version 8.0
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 128, 1, 1
{
	cp.async.cg.shared.global [%r1], [%rd1], 16;
	cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;
	cp.async.commit_group;
	cp.async.wait_group 	2;
	bar.sync 	0;
$L__BB0_2:
	cp.async.wait_group 	0;
	cp.async.wait_all;
	ret;
}
.visible .entry second(
)
{
	barrier.sync 	1;
	wgmma.wait_group.sync.aligned 	1;
	wgmma.wait_group.sync.aligned 0;
	ret;
}
"""

SASS = """
//--------------------- .text.kernel                --------------------------
.text.kernel:
        /*0000*/                   DEPBAR.LE SB0, 0x3f ;
.L_x_1:
        /*0010*/                   DEPBAR.LE SB0, 0x2 ;
        /*0020*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_2:
        /*0030*/                   LDG.E R1, [R2.64] ;
        /*0040*/               @P0 BRA `(.L_x_2) ;
        /*0050*/                   LDGSTS.E.BYPASS.128 [R1], [R2.64] ;
        /*0060*/                   HMMA.16816.F32 R32, R44.reuse, R172, R32 ;
        /*0070*/              @!P0 BRA `(.L_x_1) ;
        /*0080*/                   DEPBAR.LE SB0, 0x0 ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   BRA `(.L_x_3);
"""


def test_ptx_waits_are_read_in_textual_order_kernel_by_kernel() -> None:
    first, second = read_ptx(PTX)
    assert (first.name, first.waits) == ("first", (2, 0, 0))
    assert (first.copies, first.commits, first.barriers) == (2, 1, 1)
    assert (second.name, second.waits, second.barriers) == ("second", (), 1)
    assert (first.product_waits, second.product_waits) == ((), (1, 0))


def test_a_loop_does_not_count_what_its_inner_loop_does() -> None:
    (kernel,) = parse_assembly(SASS)
    assert kernel.waits == (63, 2, 0)
    assert kernel.loops == (
        MachineLoop(waits=(2,), barriers=1, copies=1, multiplications=1, instructions=5),
        MachineLoop(waits=(), barriers=0, copies=0, multiplications=0, instructions=2),
    )
    assert kernel.pipelined_loops == (kernel.loops[0],)


def test_padding_after_the_exit_is_no_loop() -> None:
    (kernel,) = parse_assembly(".text.k:\n /*0*/ EXIT ;\n.L_x_0:\n /*1*/ BRA `(.L_x_0);\n")
    assert kernel.loops == ()


def test_ptxas_output_gives_the_resources_of_each_kernel() -> None:
    text = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 49152 bytes smem, 520 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, 520 bytes cmem[0]
"""
    assert parse_verbose(text) == {
        "a": Resources(255, 12, 16, 8, 49152),
        "b": Resources(20, 0, 0, 0, 0),
    }


def test_a_call_of_an_undefined_function_is_refused() -> None:
    text = ".extern .func  (.param .b32 func_retval0) llvm_$_nvvm_$_unknown\n(\n)\n;\n"
    with pytest.raises(LoweringError) as caught:
        check_calls(text)
    assert caught.value.code == "unresolved-call"


def test_calls_of_the_cuda_runtime_are_accepted() -> None:
    check_calls(".extern .func  (.param .b32 func_retval0) vprintf\n(\n)\n;\n")
