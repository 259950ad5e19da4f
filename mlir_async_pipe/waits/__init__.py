"""Exact counts for waits: `count_pass` is the pass `async-pipe-count-waits`.

`graph/` reads control flow, `algebra/` counts, `witnesses/` explains; `run_time/`, `redundant/`
and `tokens/` stand beside it. Imports values, vocabulary and what they stand on.
"""
