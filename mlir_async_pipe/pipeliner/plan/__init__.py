"""What prologue, kernel and epilogue will be: units, groups, needs, versions, barriers, waits.

`make_plan` gives a `Plan`, or raises with the place that forbids it. Nothing here edits IR.
"""
