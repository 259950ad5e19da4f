"""Roles whose number of tiles is loaded from memory, as grouped products of matrices have it.

Covers: checker/phases/path_state.py, checker/phases/path_numbers.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from mlir_async_pipe import machine

TARGET = "nvvm:sm_90a"
# Of the kernel's arguments these say how many tiles there are: one place that all load, or one for each role.
GIVEN = "%sizes: memref<128xindex> {llvm.noalias}, %group: index)"
NONE, COPIES = np.zeros(128, np.int64), 5


def kernel(consumed: str, produced: str | None = None, *, before: str = "") -> str:
    """A producer and two warps that read, which load how many tiles there are from these places; all together, before they part, if
    only one is named. `before`: what else is done there."""
    text = (
        Ring(specialised=True, counted=False, executions=1).text().replace("%tiles: index)", GIVEN)
    )
    load = "{} = memref.load %sizes[{}] : memref<128xindex>\n"
    start = text.index("%consumes = ")
    both, consumer, producer = text[:start], *text[start:].split("} else {\n", 1)
    if produced is None:
        both += load.format("%tiles", consumed)
    else:
        consumer = consumer.replace("%lane = ", load.format("%tiles", consumed) + "%lane = ", 1)
        producer = producer.replace("%all:2 = ", load.format("%own", produced) + "%all:2 = ", 1)
        producer = producer.replace("%tiles", "%own")
    return f"{both}{before}{consumer}}} else {{\n{producer}"


def codes(text: str, sizes: dict[int, int], threads: int = 96) -> set[str]:
    """What runs find where these are the sizes at these places."""
    array = NONE.copy()
    array[list(sizes)] = list(sizes.values())
    source = np.arange(64 * 16, dtype=np.float32)
    found: set[str] = set()
    for completion in ("late", "eager"):
        rows = np.zeros((16, 64), np.float32)
        run = machine.run(
            parse(text), None, [source, rows, array, 3], threads=threads, completion=completion
        )
        found |= run.race_codes
    return found


@pytest.mark.parametrize(
    ("consumed", "produced"),
    [("%c1", None), ("%group", None), ("%c1", "%c1"), ("%group", "%group")],
)
def test_what_is_loaded_from_one_place_is_one_number(consumed: str, produced: str | None) -> None:
    text = kernel(consumed, produced)
    assert not codes(text, {1: COPIES, 3: COPIES})
    found = check_module(parse(text), TARGET)
    assert not (found.unsafe or found.unknown)


@pytest.mark.parametrize(
    ("consumed", "produced", "before"),
    [
        ("%c1", "%c2", ""),
        ("%group", "%c1", ""),
        ("%c1", "%c1", "memref.store %c2, %sizes[%c2] : memref<128xindex>\n"),
        ("%t", None, ""),
    ],
    ids=("another place", "perhaps another place", "somebody writes", "each thread its own"),
)
def test_other_numbers_may_be_loaded(consumed: str, produced: str | None, before: str) -> None:
    found = check_module(parse(kernel(consumed, produced, before=before)), TARGET)
    assert found.unknown


@pytest.mark.parametrize("other", ["%e", "%c1"])
def test_what_each_iteration_loads_is_another_number(other: str) -> None:
    """The iterations are 0, 1 and 2: of each it is known where both roles load from."""
    text = (
        Ring(specialised=True, counted=False, executions=3).text().replace("%tiles: index)", GIVEN)
    )
    consumer, producer = text.split("} else {\n", 1)
    load = "%zero = arith.addi %c0, %c0 : index\n"
    consumer = consumer.replace(
        load, f"{load}%tiles = memref.load %sizes[%e] : memref<128xindex>\n"
    )
    producer = producer.replace(
        load, f"{load}%tiles = memref.load %sizes[{other}] : memref<128xindex>\n"
    )
    text = f"{consumer}}} else {{\n{producer}".replace(
        "arith.muli %e, %tiles", "arith.muli %e, %c2"
    )
    assert not codes(text, {0: 2, 1: 2, 2: 2})
    assert ("deadlock" in codes(text, {0: 2, 1: 1, 2: 2})) == (other == "%c1")
    found = check_module(parse(text), TARGET)
    assert not found.unsafe and bool(found.unknown) == (other == "%c1")


def test_of_any_number_of_iterations_it_is_not_known() -> None:
    text = (
        Ring(specialised=True, counted=False, executions=3).text().replace("%tiles: index)", GIVEN)
    )
    load = "%zero = arith.addi %c0, %c0 : index\n"
    text = text.replace(load, f"{load}%tiles = memref.load %sizes[%e] : memref<128xindex>\n")
    text = text.replace("arith.muli %e, %tiles", "arith.muli %e, %c2")
    text = text.replace(
        "%executions = arith.constant 3 : index", "%executions = arith.addi %group, %c0 : index"
    )
    assert not codes(text, {0: 2, 1: 2, 2: 2})
    found = check_module(parse(text), TARGET)
    assert not found.unsafe and found.unknown


def test_a_loop_that_all_run_together_loads_its_own_number_each_time() -> None:
    text = Ring(counted=False, executions=3).text().replace("%tiles: index)", GIVEN)
    load = "%zero = arith.addi %c0, %c0 : index\n"
    text = text.replace(load, f"{load}%tiles = memref.load %sizes[%e] : memref<128xindex>\n")
    text = text.replace("arith.muli %e, %tiles", "arith.muli %e, %c2")
    assert not codes(text, {0: 2, 1: 1, 2: 2}, threads=64)
    found = check_module(parse(text), TARGET)
    assert not found.unsafe


def test_a_run_with_other_numbers_never_ends() -> None:
    text = kernel("%c1", "%c2")
    assert not codes(text, {1: COPIES, 2: COPIES})
    assert "deadlock" in codes(text, {1: COPIES, 2: COPIES - 1})
