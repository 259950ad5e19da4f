"""The states in which roles are followed grow about as the square of their slots, for any number of tiles
and iterations, and not at all where rings may begin anywhere.

With slots, states without merging what warps have heard grow exponentially (docs/phases.md): 4300, 11400
and 47400 for 2, 3 and 4 of the expander's kernel with two versions of the sums.

Covers: checker/phases/phase_paths.py, checker/phases/role_unions.py, checker/phases/loop_iterations.py,
checker/phases/rotations.py
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from helpers.machine_programs import parse
from helpers.paths import ROOT
from helpers.tensor_kernels import Ring
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.checker.phases.phase_paths import StatesSeen
from mlir_async_pipe.checker.precision import MERGED

sys.path.insert(0, str(ROOT / "examples"))
from generate_blackwell_gemm import BlackwellGemm
from generate_hopper_gemm import HopperGemm

from helpers.tensor_role_kernels import RoleGemm

pytestmark = pytest.mark.slow


@pytest.fixture
def states(monkeypatch):
    """How many states prove a kernel, the last time that it is followed."""
    made: list[StatesSeen] = []
    first = StatesSeen.__init__

    def note(self, *values, **named):
        made.append(self)
        first(self, *values, **named)

    monkeypatch.setattr(StatesSeen, "__init__", note)

    def count(text: str) -> int:
        made.clear()
        (found,) = check(parse(text)).of("checks")
        assert (found.unsafe, found.unknown) == (0, 0)
        assert made[-1].rung in MERGED
        return len(made[-1].done)

    return count


def test_states_of_products_in_tensor_memory_grow_as_slots_do(states):
    """The square would give 1.67, the cube 2.7, what doubles with each slot 4."""
    two, four, six = (states(RoleGemm(slots=n, accumulators=1).module()) for n in (2, 4, 6))
    assert six - four <= 2 * (four - two)


def test_states_grow_as_versions_of_the_sums_do(states):
    one, two, three = (states(RoleGemm(slots=2, accumulators=n).module()) for n in (1, 2, 3))
    assert three - two <= 2 * (two - one)


def test_states_of_a_ring_grow_as_its_slots_do(states):
    ring = Ring(in_flight=1, tiles=3, reader="products", specialised=True, counted=False)
    two, four, six = (states(replace(ring, slots=n).text()) for n in (2, 4, 6))
    assert six - four <= 2 * (four - two)


@pytest.mark.parametrize(
    "gemm",
    [
        HopperGemm(tile_n=64, persistent=True, roles="specialised"),
        HopperGemm(tile_n=64, persistent=True, roles="ping-pong"),
        HopperGemm(
            tile_n=64, persistent=True, roles="specialised", cluster=2, store="tma", out="f16"
        ),
        BlackwellGemm(tile_n=64, persistent=True, roles="specialised"),
    ],
    ids=["specialised", "ping-pong", "cluster", "tensor memory"],
)
def test_states_of_a_persistent_kernel_are_as_many_for_any_number_of_slots(states, gemm):
    """Which slot comes next is not told apart, nor what else was done in earlier tiles: a state for each position in
    the ring doubles them from 4 slots to 8, and one for each two positions makes them four times as many."""

    def pipelined(slots: int) -> str:
        module = parse(replace(gemm, stages=slots).module())
        pipeline(module, check="none")
        return str(module)

    four, eight = (states(pipelined(slots)) for slots in (4, 8))
    assert 0 < eight <= 1.1 * four


ROLES = {"persistent": True, "roles": "specialised"}


@pytest.mark.parametrize(
    ("gemm", "options"),
    [
        (BlackwellGemm(stages=3, **ROLES), {}),
        (BlackwellGemm(stages=4, in_flight=3, persistent=True), {}),
        (HopperGemm(stages=5, in_flight=3, **ROLES), {}),
        (HopperGemm(persistent=True), {"overlap_outer": True}),
    ],
    ids=[
        "two versions of the sums",
        "tensor memory, three in flight",
        "three in flight",
        "overlapped",
    ],
)
def test_what_a_generator_writes_is_proven(gemm, options):
    found = pipeline(parse(gemm.module()), check="warn", **options).of("checks")
    assert [(one.unsafe, one.unknown) for one in found] == [(0, 0)]
