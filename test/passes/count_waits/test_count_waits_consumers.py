"""The witness of a consumer_wait: its path adds up to producer head minus consumer head.

Covers: waits/consumers.py, waits/balance.py, waits/balance_path.py, flow/solver.py
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
