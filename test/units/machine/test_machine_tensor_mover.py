"""The tensor data mover on the machine: what it copies, when it is over, and which races are found.

Covers: machine/dialects/amd.py, machine/fifos.py, machine/detector.py
"""

import numpy as np
import pytest

from helpers.check_harness import RACES
from helpers.tensor_mover_kernels import (
    BARRIER,
    KERNELS,
    LOADED,
    MATRIX,
    OVERWRITE,
    READ,
    WG,
    by,
    descriptor,
    kernel,
    load,
    run,
    store,
    wait,
)
from mlir_async_pipe.session.diagnostics import MachineError

SOURCE = np.arange(256 * 64, dtype=np.float32).reshape(256, 64).astype(np.float16)


@pytest.mark.parametrize("completion", ("late", "eager", "random:7"))
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_the_races_that_it_has(name, completion):
    body, threads, codes = KERNELS[name]
    result = run(kernel(body, threads), threads=threads, completion=completion)
    # Two waves that copy one tile to one place are no race, and what is in flight twice is one more.
    assert result.race_codes & RACES == codes
    if not codes:
        assert result.race_codes == set()


def test_a_tile_lands_when_its_wait_says_so_and_not_before():
    result = run(kernel(LOADED + READ), threads=128, completion="late")
    np.testing.assert_array_equal(result.arrays[1][:32], SOURCE[:32])
    early = run(kernel(load() + BARRIER + READ + wait(0)), threads=128, completion="late")
    assert np.isnan(early.arrays[1][:32]).all()


def test_a_store_reads_its_source_late():
    """What is written over it before the wait is what arrives."""
    body = OVERWRITE + BARRIER + by("%first_wave", store()) + BARRIER
    twos = OVERWRITE.replace("%ones", "%twos")
    more = "%twos = arith.constant dense<2.0> : vector<16xf16>\n"
    result = run(kernel(body + twos + wait(0), more=more), threads=128, completion="late")
    assert result.race_codes == {"source-overwritten"}
    assert (result.arrays[2][:32] == 2).all()
    right = run(kernel(body + wait(0) + BARRIER + twos, more=more), threads=128, completion="late")
    assert right.races == ()
    assert (right.arrays[2][:32] == 1).all()


def test_outside_of_the_tensor_a_load_gives_zeros_and_a_store_writes_nothing():
    """20 of 32 rows and 48 of 64 columns are inside."""
    more = descriptor("in", "%src[%c0, %c0]", "%tile[%c0, %c0]", sizes="20, 48")
    more += descriptor("to", "%dst[%c0, %c0]", "%tile[%c0, %c0]", sizes="20, 48")
    body = by("%first_wave", load("in") + wait(0)) + BARRIER + READ + by("%first_wave", store("to"))
    result = run(kernel(body + wait(0), more=more), threads=128, completion="late")
    assert result.races == ()
    wanted = np.zeros((32, 64), np.float16)
    wanted[:20, :48] = SOURCE[:20, :48]
    np.testing.assert_array_equal(result.arrays[1][:32], wanted)
    np.testing.assert_array_equal(result.arrays[2][:32], wanted)


def test_padding_leaves_words_out_that_keep_what_was_there():
    """4 words after each 32 of a row of 64 f16: rows of 72 of which 64 are filled."""
    wide = f"memref<32x72xf16, {WG}>"
    more = f"""
    %wide = memref.alloc() : {wide}
    %four = arith.constant 4 : i32
    %words = arith.constant 32 : i32
    """ + descriptor(
        "d", "%src[%c0, %c0]", "%wide[%c0, %c0]", wide, rest="padShared(%four every %words)"
    )
    body = f"""
    {by("%first_wave", load("d") + wait(0))}{BARRIER}
    %v = vector.load %wide[%row, %column] : {wide}, vector<16xf16>
    vector.store %v, %out[%row, %column] : {MATRIX}, vector<16xf16>
    """
    result = run(kernel(body, more=more), threads=128, completion="late")
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[1][:32], SOURCE[:32])


def test_counters_of_lanes_and_of_waves_are_two():
    """wait.tensorcnt 0 leaves the copy by lanes in flight, and wait.asynccnt 0 the wave's."""
    lanes = f"""
    amdgpu.global_load_async_to_lds %src[%t, %c0], %own[%wave, %lane, %c0]
      : vector<8xf16>, {MATRIX}, memref<4x32x64xf16, {WG}>
    """
    asynchronous = "rocdl.s.wait.asynccnt 0\n"
    right = load() + lanes + wait(0) + BARRIER + READ + asynchronous
    assert run(kernel(right), threads=128, completion="late").races == ()
    wrong = load() + lanes + asynchronous + BARRIER + READ + wait(0)
    assert run(kernel(wrong), threads=128, completion="late").race_codes == {"read-in-flight"}


def test_a_copy_that_nobody_waits_for_is_found():
    result = run(kernel(load()), threads=128, completion="late")
    assert result.race_codes == {"uncommitted-copy"}


def test_forms_that_it_does_not_run_are_refused_by_name():
    more = "%mask = arith.constant dense<true> : vector<16xi1>" + descriptor(
        "d", "%src[%c0, %c0]", "%tile[%c0, %c0]", rest="workgroupMask %mask"
    )
    with pytest.raises(MachineError, match="it copies to several blocks of a cluster"):
        run(kernel(load("d") + wait(0), more=more), threads=128)
