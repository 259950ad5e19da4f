"""Exact counts for waits: `count_pass` is the pass `async-pipe-count-waits`.

`token_values`, `events` and `correlation` read a module; `minplus`, `summaries`, `block_search` and `solve`
count, `witness_paths` are the witnesses; `balance` and `consumers` count what is taken in order.
`run_time/`, `redundant/` and `histories` stand beside it.
"""
