"""flydsl's kernels that are compiled inside the hook do what they do without it, a stage ahead.

Covers: hooks/flydsl_hook.py, hooks/pipelined_kernel.py, examples/embedding/flydsl_kernels.py
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from helpers.flydsl_child import compiled
from helpers.paths import ROOT
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir, new_context

pytestmark = pytest.mark.skipif(
    "flydsl" not in {found.name for found in bindings.installed()}, reason="flydsl is not installed"
)
Array = np.ndarray


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# The arguments of each kernel, its grid, bytes of shared memory, and what NumPy makes of them.
INPUTS: dict[str, tuple[list[Any], int, int, Any]] = {
    "reversed_tiles": (
        [numbers(16, 256), np.zeros((16, 256), np.float32), 16], 1, 1024,
        lambda x, *_: 2 * x[:, ::-1],
    ),
    "matmul": (
        [numbers(16, 80), numbers(80, 32), np.zeros((16, 32), np.float32), 5, 32], 2, 2048,
        lambda a, b, *_: a @ b,
    ),
}  # fmt: skip


def run(text: str, name: str, **options: Any) -> machine.RunResult:
    arguments, grid, size, _ = INPUTS[name]
    with new_context():
        return machine.run(
            ir.Module.parse(text), f"{name}_0", arguments,
            threads=256, grid=grid, dynamic_shared_bytes=size, **options,
        )  # fmt: skip


def result(found: machine.RunResult) -> Array:
    return [array for array in found.arrays if array is not None][-1]


@pytest.mark.parametrize("name", INPUTS)
def test_a_kernel_does_what_it_does_without_the_hook(name: str) -> None:
    made = compiled()[name]
    assert made["loops"] == 1
    before = result(run(made["before"], name))
    for completion in machine.COMPLETIONS:
        after = run(made["module"], name, completion=completion, target="rocdl:gfx950")
        assert after.races == ()
        assert np.array_equal(result(after), before)
    arguments, _, _, reference = INPUTS[name]
    assert np.allclose(before, reference(*arguments), atol=1e-4)


def loops_of(isa: str) -> list[str]:
    """The text from each label to a later branch back to it."""
    found = []
    for label in re.finditer(r"^(\.LBB\w+):", isa, re.MULTILINE):
        back = re.search(rf"s_cbranch_\w+ {re.escape(label[1])}$", isa[label.end() :], re.MULTILINE)
        if back is not None:
            found.append(isa[label.end() : label.end() + back.end()])
    return found


def in_flight(isa: str) -> int:
    """The largest number of loads that a wait in a loop leaves in flight."""
    loops = [loop for loop in loops_of(isa) if "global_load" in loop]
    return max(int(count) for loop in loops for count in re.findall(r"vmcnt\((\d+)\)", loop))


@pytest.mark.parametrize("name", INPUTS)
def test_the_stack_s_own_code_leaves_more_loads_in_flight(name: str) -> None:
    """Where it does not unroll the loop (the product), it waits for the first of two loads to move
    it on to the next iteration's register."""
    plain = compiled(json.dumps({"num_stages": 0}))[name]
    assert plain["loops"] == 0
    assert in_flight(compiled()[name]["isa"]) >= in_flight(plain["isa"]) + 1


def test_no_load_is_waited_for_in_the_loop_that_was_issued_last() -> None:
    """Two tiles of two loads each are ahead: a wait leaves the younger one in flight. The loop is
    unrolled once, so that no load has to arrive to be moved to another register."""
    made = compiled()["matmul"]
    loops = [loop for loop in loops_of(made["isa"]) if loop.count("global_load") == 4]
    assert [re.findall(r"vmcnt\((\d+)\)", loop) for loop in loops] == [["2", "2"]]


def test_copies_between_memrefs_are_asynchronous_and_counted() -> None:
    """Kernels of the stack go by pointers; one that does not gets copies to LDS."""
    text = (ROOT / "examples" / "add_one.mlir").read_text()
    text = text.replace(" {async_pipe.num_stages = 3 : i64}", "")
    (made,) = compiled(json.dumps({"module": text, "num_stages": 3})).values()
    assert made["loops"] == 1
    assert "through-registers" not in made["codes"]
    assert "global_load_lds_dwordx4" in made["isa"]
    waits = [int(count) for count in re.findall(r"vmcnt\((\d+)\)", made["isa"])]
    assert max(waits) > 0
    arguments = [numbers(8192), np.zeros(8192, np.float32)]
    with new_context():
        for completion in machine.COMPLETIONS:
            module = ir.Module.parse(made["module"])
            done = machine.run(module, None, arguments, threads=128, completion=completion)
            assert done.races == ()
            np.testing.assert_array_equal(done.arrays[1], arguments[0] + 1)


def test_stages_are_asked_for_by_the_name_of_the_python_function() -> None:
    made = compiled(json.dumps({"num_stages": {"matmul": 2}}))
    assert made["matmul"]["loops"] == 1
    assert made["reversed_tiles"]["loops"] == 0
    assert made["reversed_tiles"]["codes"] == []


def test_tensors_that_may_overlap_keep_their_order() -> None:
    """The place is the line of the kernel's own source."""
    made = compiled(json.dumps({"noalias": False}))["reversed_tiles"]
    assert made["loops"] == 0
    assert "no-suggestion" in made["codes"]
    assert min(made["lines"]) > 20
