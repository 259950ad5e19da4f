"""Exact counts for waits: `count_pass` is the pass `async-pipe-count-waits`.

`token_values` and `correlation` read a module; `minplus`, `summaries` and `count`
count, `witness_paths` are the witnesses; `consumers` counts what is taken in order. `dynamic` is for counts
that are known at run time, `simplify` drops what changes nothing.
"""
