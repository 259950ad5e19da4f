"""From a plan to prologue, kernel and epilogue.

`expand_pass` is the pass `async-pipe-expand`: it has `plan` decide everything, and `write/` write
what was planned, which cannot fail. Imports plan, dependence, loops and waits.
"""
