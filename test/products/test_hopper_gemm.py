"""The GEMM by tensor copies and wgmma: NumPy's product on the machine, exact waits in the cubin.

Covers: examples/generate_hopper_gemm.py, examples/tensor_tiles.py, examples/tensor_gemm.py,
lowering/nvvm/to_nvvm.py, lowering/nvvm/cubin.py, pipeliner/expand/write/versioned_buffers.py,
pipeliner/expand/write/write_roles.py
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.hopper_gemms import HopperGemm, code_of, multiply
from helpers.ptxas_remarks import remarks_on_products
from mlir_async_pipe import lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

SMALL = HopperGemm(tile_m=64, tile_n=64)
SHAPES = {
    "k": SMALL,
    "n": replace(SMALL, b="n", tile_n=128),
    "bf16": replace(SMALL, types="bf16", stages=4),
    "none in flight": replace(SMALL, in_flight=0),
    "two parts": replace(SMALL, tile_m=128, stages=2),
    "two warpgroups": replace(SMALL, tile_m=128, warpgroups=2),
    "persistent": replace(SMALL, persistent=True),
    "f16 sums": replace(SMALL, sums="f16", b="n"),
    "tf32": replace(SMALL, types="tf32", tile_k=32),
    "e4m3": replace(SMALL, types="e4m3"),
    "e4m3, lines of 128 bytes": replace(SMALL, types="e4m3", tile_k=128),
    "e4m3, f16 sums": replace(SMALL, types="e4m3", sums="f16", stages=4),
    "e5m2, lines of 32 bytes": replace(SMALL, types="e5m2", tile_k=32),
    "s8": replace(SMALL, types="s8", tile_k=128),
    "u8, two parts": replace(SMALL, types="u8", tile_m=128),
}
ROLES = {
    "roles": replace(SMALL, roles="specialised"),
    "roles, none in flight": replace(SMALL, roles="specialised", in_flight=0, stages=2),
    "roles, two in flight": replace(SMALL, roles="specialised", in_flight=2),
    "roles, persistent": replace(SMALL, roles="specialised", persistent=True, b="n"),
    "roles, two warpgroups": replace(
        SMALL, roles="specialised", persistent=True, tile_m=128, warpgroups=2
    ),
    "roles, e4m3": replace(SMALL, roles="specialised", types="e4m3", tile_k=128),
}
LARGE = {
    "128x128x64": HopperGemm(),
    "128x128x64 by n": HopperGemm(b="n"),
    "128x256x64": HopperGemm(tile_n=256, warpgroups=2),
    "128x256x64 by n, bf16": HopperGemm(tile_n=256, warpgroups=2, b="n", types="bf16"),
    "128x128x64 e4m3": HopperGemm(types="e4m3"),
    "128x128x128 e5m2": HopperGemm(types="e5m2", tile_k=128),
    "128x256x64 e4m3": HopperGemm(tile_n=256, warpgroups=2, types="e4m3"),
    "128x256x128 e4m3": HopperGemm(tile_n=256, warpgroups=2, types="e4m3", tile_k=128),
    "128x128x128 s8": HopperGemm(types="s8", tile_k=128),
}
LARGE_ROLES = {
    **{name: replace(made, roles="specialised") for name, made in LARGE.items()},
    "128x128x64 persistent": HopperGemm(roles="specialised", persistent=True),
    "128x256x64 persistent": HopperGemm(
        roles="specialised", persistent=True, tile_n=256, warpgroups=2, b="n"
    ),
    "128x128x64 ping-pong": HopperGemm(roles="ping-pong", persistent=True),
    "64x256x64 ping-pong": HopperGemm(roles="ping-pong", persistent=True, tile_m=64, tile_n=256),
}


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_product_is_numpy_s(shape: str, completion: str) -> None:
    tiles = (3, 2) if SHAPES[shape].persistent else (1, 1)
    assert multiply(SHAPES[shape], completion, tiles) == (True, set())


@pytest.mark.parametrize("schedule", machine.SCHEDULES)
@pytest.mark.parametrize("shape", ROLES)
def test_the_product_by_roles_is_numpy_s_in_each_order_of_warps(shape: str, schedule: str) -> None:
    tiles = (3, 2) if ROLES[shape].persistent else (1, 1)
    for completion in machine.COMPLETIONS:
        assert multiply(ROLES[shape], completion, tiles, schedule=schedule) == (True, set())


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("schedule", machine.SCHEDULES)
def test_the_product_of_groups_in_turn_is_numpy_s(in_flight: int, schedule: str) -> None:
    """Three tiles for each block."""
    made = replace(SMALL, roles="ping-pong", persistent=True, in_flight=in_flight)
    completion = "late" if in_flight == 1 else "random"
    assert multiply(made, completion, (3, 2), schedule=schedule, checked=False) == (True, set())


CLUSTER = replace(SMALL, roles="specialised", cluster=2)
CLUSTERS = {
    "two blocks": (CLUSTER, (2, 1)),
    "four blocks": (replace(CLUSTER, cluster=4), (4, 1)),
    "two clusters of two warpgroups": (
        replace(CLUSTER, tile_m=128, warpgroups=2, stages=2, in_flight=0),
        (2, 2),
    ),
    "all warps copy": (replace(CLUSTER, roles="together"), (2, 1)),
    "all warps copy, two in flight": (
        replace(CLUSTER, roles="together", in_flight=2, stages=4),
        (2, 1),
    ),
}


@pytest.mark.parametrize("shape", CLUSTERS)
def test_the_product_of_a_cluster_is_numpy_s(shape: str) -> None:
    made, tiles = CLUSTERS[shape]
    for completion in machine.COMPLETIONS:
        assert multiply(made, completion, tiles) == (True, set())


@pytest.mark.parametrize("k", [200, 64, 0])
@pytest.mark.parametrize("roles", ["together", "specialised"])
def test_the_product_of_a_persistent_cluster_is_numpy_s(roles: str, k: int) -> None:
    """Each of two clusters takes two tiles of two blocks' rows, one after the other."""
    made = replace(CLUSTER, roles=roles, persistent=True)
    assert multiply(made, "random", (4, 2), k, checked=False) == (True, set())


def test_descriptors_name_memory_of_the_block_alone() -> None:
    """Two blocks of 160 KiB have more than the 18 bits of an address in a descriptor tell apart."""
    made = HopperGemm(roles="specialised", cluster=2, stages=5)
    assert 2 * made.stages * (made.left.bytes + made.right.bytes) > 1 << 18
    assert multiply(made, "late", (2, 1)) == (True, set())


@pytest.mark.parametrize(
    "made",
    [
        replace(CLUSTER, roles="ping-pong", persistent=True),
        replace(CLUSTER, b="n"),
        replace(CLUSTER, cluster=16),
    ],
)
def test_a_cluster_that_cannot_share_is_refused(made: HopperGemm) -> None:
    assert any("cluster" in problem for problem in made.problems())
    assert not CLUSTER.problems()


@pytest.mark.slow
@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("shape", LARGE)
def test_the_product_of_a_large_tile_is_numpy_s(shape: str, completion: str) -> None:
    assert multiply(LARGE[shape], completion) == (True, set())


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("shape", LARGE)
def test_the_machine_code_has_one_wait_of_each_kind_and_one_barrier(shape: str) -> None:
    made = LARGE[shape]
    kernel = code_of(made)
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    # One product stays in flight in the loop, none after it.
    assert (loop.product_waits, kernel.machine.product_waits) == ((1,), (1, 0))
    assert (loop.tensor_copies, loop.expects) == (2, 1)
    # A wait for a phase asks again and again: a loop of its own inside.
    assert sum(found.phase_waits for found in kernel.machine.loops) == 1
    assert (loop.barriers, loop.multiplications) == (1, made.left.steps * made.parts)
    assert kernel.resources.spill_store_bytes == 0
    # Triton has 76 to 80 for k of 64 bytes, 86 to 98 for k of 128 (docs/code.md).
    assert loop.instructions < (76 if made.left.line == 64 else 86)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("shape", LARGE_ROLES)
def test_the_machine_code_of_roles_is_two_loops(shape: str) -> None:
    made = LARGE_ROLES[shape]
    kernel = code_of(made)
    (consumer,) = [found for found in kernel.machine.loops if found.multiplications]
    assert (consumer.product_waits, kernel.machine.product_waits) == ((1,), (1, 0))
    assert (consumer.tensor_copies, consumer.expects, consumer.barriers) == (0, 0, 0)
    assert (consumer.phase_waits, consumer.arrivals) == (1, 1)
    assert consumer.multiplications == made.left.steps * made.parts
    # No loop around a copy: both stand in that of the producer.
    (producer,) = [found for found in kernel.machine.loops if found.tensor_copies]
    assert (producer.tensor_copies, producer.expects, producer.barriers) == (2, 1, 0)
    assert (producer.phase_waits, producer.arrivals) == (1, 0)
    # Groups that take turns meet before their loop, and who would be next after all tiles.
    in_turn = made.roles == "ping-pong"
    assert kernel.machine.barriers == (3 if in_turn else 1)
    assert kernel.resources.spill_store_bytes == kernel.resources.spill_load_bytes == 0
    # As many as a thread begins with: of 64 K, which two blocks of 256 threads share, and one of 384 has.
    assert kernel.resources.registers == (128 if made.launched == 256 else 168)
    # Triton has 76 to 98 (docs/code.md), by hand it is 76.
    assert consumer.instructions < 76


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_the_machine_code_of_a_cluster_copies_into_all_of_it() -> None:
    kernel = code_of(HopperGemm(roles="specialised", cluster=2))
    (consumer,) = [found for found in kernel.machine.loops if found.multiplications]
    (producer,) = [found for found in kernel.machine.loops if found.tensor_copies]
    assert (consumer.arrivals, consumer.remote_arrivals, consumer.barriers) == (0, 2, 0)
    assert (producer.tensor_copies, producer.multicasts, producer.expects) == (2, 1, 1)
    assert kernel.resources.spill_store_bytes == 0
    # One block alone has 59 (docs/hopper.md).
    assert consumer.instructions < 68


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_the_machine_code_of_a_cluster_without_roles_has_no_barrier() -> None:
    kernel = code_of(HopperGemm(cluster=2))
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    assert (loop.arrivals, loop.remote_arrivals, loop.barriers) == (0, 2, 0)
    assert (loop.tensor_copies, loop.multicasts, loop.expects) == (2, 1, 1)
    assert (loop.product_waits, loop.multiplications) == ((1,), 8)
    assert kernel.resources.spill_store_bytes == 0
    # One block alone has 74 (docs/hopper.md).
    assert loop.instructions < 106


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("shape", [*LARGE, *(f"roles {name}" for name in LARGE_ROLES), "cluster"])
def test_ptxas_does_not_serialise_the_products(shape: str, tmp_path: Path) -> None:
    shapes = LARGE | {f"roles {name}": made for name, made in LARGE_ROLES.items()}
    made = shapes.get(shape, HopperGemm(cluster=2))
    with new_context():
        module = ir.Module.parse(made.module())
        pipeline(module, target="nvvm:sm_90a", check="none")
        text = lower(module, target="nvvm:sm_90a", emit="ptx").text
    assert remarks_on_products(text, tmp_path) == []


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_what_ptxas_says_of_products_is_reported(tmp_path: Path) -> None:
    """Sums that are used while a product fills them: the remark that the test above looks for."""
    with new_context():
        module = ir.Module.parse(SMALL.module())
        pipeline(module, target="nvvm:sm_90a", check="none")
        for wait in [op for op in walk(module.operation) if "wgmma.wait.group" in op.name]:
            wait.erase()
        found = lower(module, target="nvvm:sm_90a", emit="ptx")
    assert "(C7517)" in remarks_on_products(found.text, tmp_path)[0]
    (remark,) = found.diagnostics
    assert remark.code == "products-serialised"
    assert "wait_group is injected" in remark.message and "'gemm'" in remark.message


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_no_generic_address_is_made_of_a_tile() -> None:
    with new_context():
        module = ir.Module.parse(SMALL.module())
        pipeline(module, target="nvvm:sm_90a", check="none")
        text = lower(module, target="nvvm:sm_90a", emit="ptx").text
    assert text.count("cp.async.bulk.tensor") == 6
    assert not re.search(r"cvta\S*shared", text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tile_m": 96},
        {"tile_n": 96},
        {"tile_n": 512},
        {"stages": 0},
        {"warpgroups": 3},
        {"types": "e4m3", "b": "n"},
        {"types": "bf16", "sums": "f16"},
        {"tile_k": 128},
        {"tile_k": 24},
    ],
)
def test_what_cannot_be_made_is_said(wrong: dict[str, int]) -> None:
    assert replace(SMALL, **wrong).problems()
