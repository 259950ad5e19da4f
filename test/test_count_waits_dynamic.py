"""Mode dynamic: a wait behind conditional commits switches on a run-time counter."""

from count_waits_helpers import function, run

BODY = """
  %a = GROUP
  scf.if %c {
    %t = GROUP
  }
  WAIT %a
  return
"""


def test_conditional_commit_becomes_a_switch_over_the_counts_that_can_occur():
    text = run(function(BODY), "mode=dynamic")[1]
    assert "scf.index_switch" in text
    counts = [
        line.split("numGroups = ")[1].split(" ")[0]
        for line in text.splitlines()
        if "numGroups" in line
    ]
    # The case regions print first, the default with the count that is always safe last.
    assert counts == ["1", "2", "3", "4", "5", "6", "7", "8", "0"]


def test_unconditional_waits_stay_static():
    text = run(function("%a = GROUP\n%b = GROUP\nWAIT %a\nreturn"), "mode=dynamic")[1]
    assert "scf.index_switch" not in text
    assert "numGroups = 1" in text


def test_static_mode_writes_no_switch():
    assert "scf.index_switch" not in run(function(BODY))[1]


def test_token_carried_by_a_loop_keeps_its_static_count():
    body = """
      %a = GROUP
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (TOK) {
        %t = GROUP
        scf.yield %t : TOK
      }
      scf.if %c {
        %t = GROUP
      }
      WAIT %r
      return
    """
    report, text = run(function(body), "mode=dynamic")
    assert "scf.index_switch" not in text
    assert "dynamic-unsupported" in [item.code for item in report.diagnostics]
