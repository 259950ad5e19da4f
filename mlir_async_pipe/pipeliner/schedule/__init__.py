"""From annotations to a stage and an order for each statement: `schedule_pass` is the pass, `modulo` schedules by latency.
Imports normalise, dependence and the plan that judges a schedule."""
