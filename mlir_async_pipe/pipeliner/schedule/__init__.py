"""From annotations to a stage and an order for each statement.

Public: `schedule_pass` (`async-pipe-schedule`), `modulo` (schedules by latency), `hand_made_slots`
and `one_slot` (buffers whose slots the input counts itself). Imports dependence, and from expand
the plan that judges a schedule.
"""
