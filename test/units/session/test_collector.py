"""Collections are rare while a pass runs, and as before afterwards.

Covers: session/passes.py, session/nesting.py
"""

from __future__ import annotations

import gc
import threading

import pytest

from mlir_async_pipe.session.passes import collected_rarely


@pytest.fixture(autouse=True)
def usual_threshold():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@collected_rarely
def threshold() -> int:
    return gc.get_threshold()[0]


@collected_rarely
def nested() -> tuple[int, int]:
    return threshold(), gc.get_threshold()[0]


@collected_rarely
def failing() -> None:
    raise ValueError


def test_the_threshold_is_high_inside_and_as_before_outside():
    assert threshold() == 100_000
    assert nested() == (100_000, 100_000)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_pass_that_fails_leaves_the_threshold_as_it_was():
    with pytest.raises(ValueError):
        failing()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("set_before", [0, 100_000, 1_000_000])
def test_a_collector_that_is_off_or_rarer_stays_so(set_before):
    gc.set_threshold(set_before, 10, 10)
    assert threshold() == set_before
    assert gc.get_threshold()[0] == set_before


def test_the_last_of_several_threads_resets_the_threshold():
    inside, leave = threading.Event(), threading.Event()

    @collected_rarely
    def waits() -> None:
        inside.set()
        leave.wait(10)

    other = threading.Thread(target=waits)
    other.start()
    assert inside.wait(10)
    assert threshold() == 100_000
    assert gc.get_threshold()[0] == 100_000
    leave.set()
    other.join()
    assert gc.get_threshold()[0] == 700
