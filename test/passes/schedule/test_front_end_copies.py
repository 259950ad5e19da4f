"""Copies as front ends write them: with addresses between, guarded, converted, through registers.

Each body fills a row of 32 elements an iteration and is used by other threads, or under its own
guard; pipelined with three stages it gives what it gives as written, whenever copies arrive.

Covers: pipeliner/plan/units.py, facts/loops/statements.py, pipeliner/schedule/by_count.py, pipeliner/expand/expand_pass.py, pipeliner/normalise/guarded_stores.py, pipeliner/normalise/affine_loops.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.pipeliner.normalise.guarded_stores import simplify_guards
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.session.report import Session

ROW = "memref<32xf32, #gpu.address_space<workgroup>>"
ARRAY = "memref<1024xf32>"
KERNEL = """
gpu.module @kernels {{
  gpu.func @kernel(%A: memref<1024xf32> {{llvm.noalias}}, %B: memref<1024xf32> {{llvm.noalias}},
                   %I: memref<1024xi32> {{llvm.noalias}}, %C: memref<1024xf32> {{llvm.noalias}},
                   %n: index) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %s = memref.alloc() : memref<32xf32, #gpu.address_space<workgroup>>
    %q = memref.alloc() : memref<32xf32, #gpu.address_space<workgroup>>
    %t = gpu.thread_id x
    %inside = arith.cmpi slt, %t, %n : index
    %some = arith.cmpi slt, %n, %c16 : index
    scf.for %i = %c0 to %c16 step %c1 {{
      %o = arith.muli %i, %c32 : index
      %x = arith.addi %o, %t : index
      %early = arith.cmpi ult, %i, %n : index
      %row = arith.cmpi ult, %x, %n : index
      {fill}
      gpu.barrier
      {use}
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}
"""
OTHER_THREAD = f"""%z = arith.subi %c31, %t : index
      %w = memref.load %s[%z] : {ROW}
      memref.store %w, %C[%x] : {ARRAY}"""
LOAD = f"%v = memref.load %A[%x] : {ARRAY}"
STORE = f"memref.store %v, %s[%t] : {ROW}"
ZEROS = f"memref.store %zero, %s[%t] : {ROW}"


def own_element(guard: str) -> str:
    """Each thread uses what it copied, under the condition under which it did."""
    return f"""scf.if {guard} {{
        %w = memref.load %s[%t] : {ROW}
        memref.store %w, %C[%x] : {ARRAY}
      }}"""


@dataclass(frozen=True)
class Form:
    """How the row is filled, and how it is used."""

    fill: str
    use: str = OTHER_THREAD

    def text(self) -> str:
        return KERNEL.format(fill=self.fill, use=self.use)


ASYNC = {
    "as upstream writes it": Form(f"{LOAD}\n{STORE}"),
    "an address between": Form(
        f"{LOAD}\n%y = arith.addi %t, %c0 : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "an address of the counter between": Form(
        f"{LOAD}\n%y = arith.subi %x, %o : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "a chain of addresses between": Form(
        f"{LOAD}\n%e = arith.muli %i, %c32 : index\n%f = arith.addi %e, %t : index\n"
        f"%y = arith.subi %f, %e : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "two copies with addresses between": Form(
        f"{LOAD}\n%y = arith.subi %x, %o : index\nmemref.store %v, %s[%y] : {ROW}\n"
        f"%v2 = memref.load %B[%x] : {ARRAY}\n%y2 = arith.subi %x, %o : index\n"
        f"memref.store %v2, %q[%y2] : {ROW}",
        f"""%z = arith.subi %c31, %t : index
        %w = memref.load %s[%z] : {ROW}
        %w2 = memref.load %q[%z] : {ROW}
        %sum = arith.addf %w, %w2 : f32
        memref.store %sum, %C[%x] : {ARRAY}""",
    ),
    "selected": Form(
        f"%l = memref.load %A[%x] : {ARRAY}\n%v = arith.select %inside, %l, %zero : f32\n{STORE}"
    ),
    "a guard": Form(f"scf.if %inside {{ {LOAD}\n{STORE} }}", own_element("%inside")),
    "a guard of the counter": Form(f"scf.if %early {{ {LOAD}\n{STORE} }}", own_element("%early")),
    "a guard that all threads share": Form(
        f"scf.if %some {{ {LOAD}\n{STORE} }}", own_element("%some")
    ),
    "guards in guards": Form(
        f"scf.if %early {{ scf.if %inside {{ {LOAD}\n{STORE} }} }}",
        f"%both = arith.andi %early, %inside : i1\nscf.if %early {{ {own_element('%inside')} }}",
    ),
    "a guard that holds": Form(f"scf.if %true {{ {LOAD}\n{STORE} }}"),
    "two copies under one guard": Form(
        f"scf.if %inside {{ {LOAD}\n{STORE}\n%v2 = memref.load %B[%x] : {ARRAY}\n"
        f"memref.store %v2, %q[%t] : {ROW} }}",
        own_element("%inside"),
    ),
    "a guarded store": Form(f"{LOAD}\nscf.if %inside {{ {STORE} }}", own_element("%inside")),
    "a guard, else zeros": Form(f"scf.if %inside {{ {LOAD}\n{STORE} }} else {{ {ZEROS} }}"),
    "zeros, then a guard": Form(f"{ZEROS}\nscf.if %row {{ {LOAD}\n{STORE} }}"),
    "a guarded load, else zero": Form(
        f"%v = scf.if %row -> f32 {{\n%l = memref.load %A[%x] : {ARRAY}\nscf.yield %l : f32\n"
        f"}} else {{ scf.yield %zero : f32 }}\n{STORE}"
    ),
    "two rows, else zeros": Form(
        f"scf.if %row {{ {LOAD}\n{STORE}\n%v2 = memref.load %B[%x] : {ARRAY}\n"
        f"memref.store %v2, %q[%t] : {ROW} }} else {{ {ZEROS}\n{ZEROS.replace('%s', '%q')} }}",
        f"""%z = arith.subi %c31, %t : index
        %w = memref.load %s[%z] : {ROW}
        %w2 = memref.load %q[%z] : {ROW}
        %sum = arith.addf %w, %w2 : f32
        memref.store %sum, %C[%x] : {ARRAY}""",
    ),
    "transfers": Form(
        f"%v = vector.transfer_read %A[%x], %zero {{in_bounds = [true]}} : {ARRAY}, vector<1xf32>\n"
        f"vector.transfer_write %v, %s[%t] {{in_bounds = [true]}} : vector<1xf32>, {ROW}"
    ),
    "masked": Form(
        "%m = vector.create_mask %n : vector<1xi1>\n%p = arith.constant dense<0.0> : vector<1xf32>\n"
        f"%v = vector.maskedload %A[%x], %m, %p : {ARRAY}, vector<1xi1>, vector<1xf32> into "
        f"vector<1xf32>\nvector.store %v, %s[%t] : {ROW}, vector<1xf32>"
    ),
}
VIEWS = """%from = memref.subview %A[%x] [1] [1] :
        memref<1024xf32> to memref<1xf32, strided<[1], offset: ?>>
      %to = memref.subview %s[%t] [1] [1] : memref<32xf32, #gpu.address_space<workgroup>>
        to memref<1xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>
"""
VIEW = "memref<1xf32, strided<[1], offset: ?>>"
TILE = "memref<1xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>"
ASYNC |= {"memref.copy": Form(f"{VIEWS}memref.copy %from, %to : {VIEW} to {TILE}")}
REGISTERS = {
    "converted": Form(f"%l = memref.load %A[%x] : {ARRAY}\n%v = arith.addf %l, %l : f32\n{STORE}"),
    "something else than zeros": Form(
        f"{LOAD}\n%one = arith.constant 1.0 : f32\n%u = arith.select %inside, %v, %one : f32\n"
        + STORE.replace("%v", "%u")
    ),
    "another use": Form(f"{LOAD}\n{STORE}\nmemref.store %v, %q[%t] : {ROW}"),
    "no workgroup memory": Form(
        LOAD, f"%w = arith.addf %v, %v : f32\nmemref.store %w, %C[%x] : {ARRAY}"
    ),
    "a sum": Form(
        LOAD + f"\n%b = memref.load %B[%x] : {ARRAY}\n%w = arith.addf %v, %b : f32",
        f"memref.store %w, %C[%x] : {ARRAY}",
    ),
    "a place that is not proven to be overwritten": Form(
        f"{LOAD}\n%y = arith.remui %x, %c32 : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
}


def arrays() -> list[np.ndarray]:
    """Two arrays of numbers, an array of indices, the result."""
    random = np.random.default_rng(1)
    numbers = [random.integers(1, 99, 1024).astype(np.float32) for _ in range(2)]
    indices = random.integers(0, 1024, 1024).astype(np.int32)
    return [*numbers, indices, np.zeros(1024, np.float32)]


def same_results(text: str, module: ir.Module) -> None:
    """The module computes what the text does, in every completion, without a race."""
    before = ir.Module.parse(text)
    for n in (0, 8, 16, 32, 100, 512):
        run = machine.run(before, "kernel", [*arrays(), n], threads=32)
        assert run.races == ()
        for completion in ("eager", "late", "random"):
            found = machine.run(module, "kernel", [*arrays(), n], threads=32, completion=completion)
            assert found.races == ()
            np.testing.assert_array_equal(found.arrays[3], run.arrays[3])


# Of a whole row a wave does not know which lane copies what.
OF_ROWS = ("memref.copy", "rocdl:gfx950")


def test_rows_that_a_wave_cannot_share_out_go_through_registers():
    form, target = OF_ROWS
    with new_context():
        text = ASYNC[form].text()
        module = ir.Module.parse(text)
        report = pipeline(module, target)
        (remark,) = [d for d in report.diagnostics if d.code == "through-registers"]
        assert "views of their own" in remark.message
        assert not report.of("waits")
        assert [check.unknown for check in report.of("checks")] == [0]
        same_results(text, module)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "target"),
    [
        (form, target)
        for form in ASYNC
        for target in ("nvvm:sm_80", "rocdl:gfx950")
        if (form, target) != OF_ROWS
    ],
)
def test_copies_are_issued_two_iterations_ahead(form, target):
    with new_context():
        text = ASYNC[form].text()
        module = ir.Module.parse(text)
        report = pipeline(module, target)
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
        assert [check.unknown for check in report.of("checks")] == [0]
        same_results(text, module)
        chip = Target.parse(target).chip
        lower_abstract_ops(module.operation, chip, Session(), strict=True)
        assert "nvgpu.device_async_copy" in {op.name for op in walk(module.operation)}
        same_results(text, module)


@pytest.mark.parametrize("form", REGISTERS)
def test_other_loads_run_two_iterations_ahead_into_registers(form):
    with new_context():
        text = REGISTERS[form].text()
        module = ir.Module.parse(text)
        report = pipeline(module, "nvvm:sm_80")
        assert [d.code for d in report.diagnostics if d.code != "barriers-dropped"] == [
            "through-registers"
        ]
        assert all(loop.carried_registers > 0 for loop in report.of("loops"))
        assert [check.unknown for check in report.of("checks")] == [0]
        same_results(text, module)


AS_WRITTEN = {
    "a store between": f"{ZEROS}\nmemref.store %one, %s[%t] : {ROW}\n"
    f"scf.if %row {{ {LOAD}\n{STORE} }}",
    "a barrier between": f"{ZEROS}\ngpu.barrier\nscf.if %row {{ {LOAD}\n{STORE} }}",
    "zeros elsewhere": f"scf.if %row {{ {LOAD}\n{STORE} }} else {{\n"
    f"memref.store %zero, %s[%z0] : {ROW} }}",
    "ones": f"scf.if %row {{ {LOAD}\n{STORE} }} else {{ memref.store %one, %s[%t] : {ROW} }}",
    "more zeros than copies": f"scf.if %row {{ {LOAD}\n{STORE} }} else {{ {ZEROS}\n"
    f"memref.store %zero, %q[%t] : {ROW} }}",
    "another effect": f"scf.if %row {{ {LOAD}\n{STORE}\nmemref.store %v, %C[%x] : {ARRAY} }} "
    f"else {{ {ZEROS} }}",
    "a value that is used again": f"scf.if %row {{ {LOAD}\n{STORE}\n"
    f"memref.store %v, %q[%t] : {ROW} }} else {{ {ZEROS} }}",
}


@pytest.mark.parametrize("fill", AS_WRITTEN)
def test_guards_that_say_something_else_stay(fill):
    with new_context():
        text = KERNEL.format(
            fill="%one = arith.constant 1.0 : f32\n%z0 = arith.subi %c31, %t : index\n"
            + AS_WRITTEN[fill],
            use="",
        )
        module = ir.Module.parse(text)
        (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
        simplify_guards(loop, fills=True)
        assert str(module) == str(ir.Module.parse(text))


def test_one_form_can_be_asked_for():
    with new_context():
        copying = ASYNC["as upstream writes it"].text()
        asked = copying.replace("num_stages", 'stage_through = "registers", async_pipe.num_stages')
        module = ir.Module.parse(asked)
        report = pipeline(module, "nvvm:sm_80")
        assert report.of("waits") == ()
        assert "asks for it" in report.diagnostics[0].message
        same_results(copying, module)
        loading = REGISTERS["converted"].text()
        module = ir.Module.parse(
            loading.replace("num_stages", 'stage_through = "async", async_pipe.num_stages')
        )
        with pytest.raises(InputError) as caught:
            pipeline(module, "nvvm:sm_80")
        assert caught.value.code == "no-copies"


def test_a_chip_without_asynchronous_copies_loads_into_registers():
    with new_context():
        text = ASYNC["as upstream writes it"].text()
        module = ir.Module.parse(text)
        report = pipeline(module, "rocdl:gfx1100")
        assert "gfx1100 has no asynchronous copy" in report.diagnostics[0].message
        same_results(text, module)


def test_too_little_memory_for_versions_is_no_refusal():
    with new_context():
        text = ASYNC["as upstream writes it"].text()
        module = ir.Module.parse(text)
        report = pipeline(module, "nvvm:sm_80", smem_limit=300)
        assert [d.code for d in report.diagnostics if d.code != "barriers-dropped"] == [
            "through-registers"
        ]
        same_results(text, module)
        asked = text.replace("num_stages", 'stage_through = "async", async_pipe.num_stages')
        with pytest.raises(PipelineError) as caught:
            pipeline(ir.Module.parse(asked), "nvvm:sm_80", smem_limit=300)
        assert caught.value.code == "smem-limit"


def test_the_remark_names_the_store_and_what_hinders_it():
    with new_context():
        module = ir.Module.parse(REGISTERS["converted"].text())
        (remark,) = pipeline(module, "nvvm:sm_80").diagnostics
        reported = [note.message for note in remark.notes]
        assert any(
            "this store fills workgroup memory" in note and "computed, not loaded" in note
            for note in reported
        )


INDIRECT = Form(
    "%j = memref.load %I[%x] : memref<1024xi32>\n%k = arith.index_cast %j : i32 to index\n"
    f"%v = memref.load %A[%k] : {ARRAY}\n{STORE}"
)
TWICE = Form(
    "%j = memref.load %I[%x] : memref<1024xi32>\n%k = arith.index_cast %j : i32 to index\n"
    "%j2 = memref.load %I[%k] : memref<1024xi32>\n%k2 = arith.index_cast %j2 : i32 to index\n"
    f"%v = memref.load %A[%k2] : {ARRAY}\n{STORE}"
)
LEVELS = {
    "one of three stages": (INDIRECT, 3, [0, 1, 1, 2], [0, 0, 0]),
    "one of four stages": (INDIRECT, 4, [0, 1, 1, 3], [1, 1, 1, 0]),
    "two of four stages": (TWICE, 4, [0, 1, 2, 2, 3], [0, 0, 0, 0]),
    "two of three stages": (TWICE, 3, [0, 0, 1, 1, 2], [0, 0, 0]),
    "two stages": (INDIRECT, 2, [0, 0, 0, 1], [0, 0]),
}


LEVELS["one guard for two copies"] = (
    Form(
        "%j = memref.load %I[%x] : memref<1024xi32>\n%k = arith.index_cast %j : i32 to index\n"
        f"%v = memref.load %A[%k] : {ARRAY}\n%v2 = memref.load %B[%x] : {ARRAY}\n"
        f"scf.if %inside {{ {STORE}\nmemref.store %v2, %q[%t] : {ROW} }}",
        own_element("%inside"),
    ),
    3,
    [0, 1, 1, 1, 2],
    [0, 0, 0],
)


@pytest.mark.parametrize("name", LEVELS)
def test_an_index_is_loaded_a_stage_before_the_copy_that_needs_it(name):
    form, count, stages, waits = LEVELS[name]
    text = form.text().replace("num_stages = 3", f"num_stages = {count}")
    with new_context():
        module = ir.Module.parse(text)
        scheduled = ir.Module.parse(text)
        for step in ("async-pipe-normalise", "async-pipe-schedule"):
            passes.find(step).run(scheduled.operation, passes.find(step).options(), Session())
        found = [
            integer_attribute(op, "async_pipe.stage")
            for op in walk(scheduled.operation)
            if "async_pipe.stage" in op.attributes
        ]
        assert found[: len(stages)] == stages
        report = pipeline(module, "nvvm:sm_80")
        assert [wait.count for wait in report.of("waits")] == waits
        same_results(text, module)
