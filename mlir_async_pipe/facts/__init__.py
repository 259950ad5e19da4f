"""What the IR says, read by every analysis: `values` (integers, ranges, roots of memory), `flow` (what may run
after what), `loops` (annotated loops and their statements), `costs` (what an op costs). Edits nothing."""
