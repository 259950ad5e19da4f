"""The witness of a consumer_wait: its path adds up to producer head minus consumer head.

Covers: waits/consumers.py, waits/witness_paths.py, facts/flow/solver.py
"""

import pytest

from helpers.counted_text import function, run

COMMIT = '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
TAKE = '"async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()'


def records(body: str):
    text = body.replace("COMMIT", COMMIT).replace("TAKE", TAKE)
    return run(function(text + "\nreturn" * ("return" not in text)))[0].of("waits")


PROGRAMS = {
    "straight line": "%a = COMMIT\n%b = COMMIT\nTAKE\nTAKE",
    "loop with a take": """
      %a = COMMIT
      %b = COMMIT
      scf.for %i = %c0 to %n step %c1 {
        %t = COMMIT
        TAKE
      }
      TAKE
    """,
    "static loop that takes": """
      %a = COMMIT
      %b = COMMIT
      %d0 = COMMIT
      scf.for %i = %c0 to %c3 step %c1 {
        TAKE
      }
    """,
    "condition": """
      %a = COMMIT
      %b = COMMIT
      scf.if %c {
        %t = COMMIT
        TAKE
      } else {
        TAKE
      }
      TAKE
    """,
    "while": """
      %a = COMMIT
      %b = COMMIT
      scf.while : () -> () {
        %g = "test.truth"() : () -> i1
        TAKE
        scf.condition(%g)
      } do {
        %t = COMMIT
        scf.yield
      }
      TAKE
    """,
    "graph": """
      %a = COMMIT
      %b = COMMIT
      cf.cond_br %c, ^left, ^right
    ^left:
      %e = COMMIT
      cf.br ^right
    ^right:
      TAKE
      cf.cond_br %d, ^right2, ^end
    ^right2:
      %g = COMMIT
      cf.br ^right
    ^end:
      TAKE
      return
    """,
    "more blocks than a trail": "%z = COMMIT\ncf.br ^b0\n"
    + "".join(f"^b{i}:\n%x{i} = COMMIT\nTAKE\ncf.br ^b{i + 1}\n" for i in range(40))
    + "^b40:\nreturn",
    "longer than a trail": "%z = COMMIT\n" + "".join(f"%x{i} = COMMIT\nTAKE\n" for i in range(40)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_on_the_path_add_up_to_the_count(name):
    """Law: commits minus takes on the path that is shown are the count."""
    found = records(PROGRAMS[name])
    assert found
    for record in found:
        assert record.reason == "exact"
        assert sum(step.groups for step in record.witness) == record.exact == record.count


def test_path_names_commits_takes_and_loops_in_the_order_in_which_they_run():
    last = records(PROGRAMS["loop with a take"])[-1]
    assert [(step.what, step.groups) for step in last.witness] == [
        ("nothing is committed yet", 0),
        ("a group is committed", 1),
        ("a group is committed", 1),
        ("past 'scf.for'", 0),
        ("the oldest group is taken", -1),
    ]


def test_earlier_iterations_of_a_static_loop_take_their_groups():
    (record,) = records(PROGRAMS["static loop that takes"])
    assert ("earlier iterations of 'scf.for'", -2) in [
        (step.what, step.groups) for step in record.witness
    ]


@pytest.mark.parametrize(
    "body",
    [
        "%a = COMMIT\nscf.for %i = %c0 to %n step %c1 {\nTAKE\n}",
        "%a = COMMIT\ncf.br ^loop\n^loop:\nTAKE\ncf.cond_br %c, ^loop, ^end\n^end:\nreturn",
    ],
)
def test_cycle_that_only_takes_has_a_finite_path(body):
    (record,) = records(body)
    assert (record.count, record.exact, record.reason) == (0, -1, "consumer-ahead")
    assert record.witness[0].what == "nothing is committed yet"
    assert all(abs(step.groups) <= 1 for step in record.witness)


def test_left_out_steps_are_counted():
    last = records(PROGRAMS["more blocks than a trail"])[-1]
    (cut,) = (step for step in last.witness if step.what.endswith("more steps"))
    # 1 commit, 40 times a commit and a take, 40 edges, less the 24 that are shown.
    assert cut.what == f"{1 + 2 * 40 + 40 - 24} more steps"


# Two abstract queues; on sm_80 they share cp.async, without a chip each is its own FIFO.
QUEUES = {
    "0": '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK',
    "1": '"async_pipe.commit_queue"() {queue = 1 : i64} : () -> TOK',
}


def counts_of_two(body: str, chip: str = "chip=sm_80") -> list[tuple[int, int]]:
    """(count, groups of the witness) of each take; `C0`, `C1` commit, `T0`, `T1` take."""
    for queue, commit in QUEUES.items():
        body = body.replace(f"T{queue}", TAKE.replace("queue = 0", f"queue = {queue}"))
        body = body.replace(f"C{queue}", f"= {commit}")
    records = run(function(body + "\nreturn"), chip)[0].of("waits")
    assert all(record.reason == "exact" for record in records)
    return [(record.count, sum(step.groups for step in record.witness)) for record in records]


@pytest.mark.parametrize(
    ("body", "shared", "apart"),
    [
        ("%a C0\n%b C1\nT1\nT0", [0, 1], [0, 0]),
        ("%a C0\n%b C1\n%d0 C0\nT0\nT1\nT0", [2, 1, 0], [1, 0, 0]),
        # The side that commits less decides, whichever holds more.
        ("%a C0\nscf.if %c {\n%b C1\n%d0 C1\n} else {\n%e C1\n}\nT0\nT1", [1, 0], [0, 0]),
        # Two groups of the queue wait on one side, and one with a group behind it on the other.
        ("scf.if %c {\n%a C0\n%b C0\n} else {\n%e C0\n%f C1\n%g C1\n}\nT0", [1], [0]),
        (
            "%a C0\n%b C1\nscf.for %i = %c0 to %n step %c1 {\n%e C0\n%f C1\nT0\nT1\n}\nT0\nT1",
            [3, 2, 1, 0],
            [1, 1, 0, 0],
        ),
    ],
)
def test_the_oldest_group_of_a_queue_is_counted_on_the_fifo_of_all(body, shared, apart):
    assert counts_of_two(body) == [(count, count) for count in shared]
    assert [count for count, _ in counts_of_two(body, "")] == apart


def test_a_take_of_an_unknown_queue_may_take_from_this_one():
    take = '"async_pipe.consumer_wait"(%n) : (index) -> ()'
    body = f"%a = COMMIT\n%b = COMMIT\n%e = COMMIT\n{take}\nTAKE".replace("COMMIT", COMMIT)
    report, _ = run(function(body.replace("TAKE", TAKE) + "\nreturn"))
    assert [record.count for record in report.of("waits")] == [0, 1]


def test_slots_are_those_of_the_own_queue():
    acquire = '"async_pipe.producer_acquire"() {{queue = {} : i64, depth = 1 : i64}} : () -> ()\n'
    both = acquire.format(0) + acquire.format(1)
    assert not run(function(both + "return"), "chip=sm_80")[0].diagnostics
    report, _ = run(function(both + acquire.format(1) + "return"), "chip=sm_80")
    assert [entry.code for entry in report.diagnostics] == ["depth-exceeded"]
