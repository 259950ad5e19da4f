"""From a schedule to prologue, kernel and epilogue.

`expand_pass` is the pass `async-pipe-expand`. `plan/` decides everything and edits nothing;
`write/` writes what was planned and cannot fail. Imports dependence, loops and waits.
"""
