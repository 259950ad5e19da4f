"""Phases: mbarriers, the copies that complete on them, and the products that read what came.

    phase_paths    all paths of a kernel whose threads go one way together
    op_effects     what an op arrives at, waits for, copies, reads and writes there
    arrivals       mbarriers: arrivals, bytes and phases; async_memory: who may touch which bytes
    amounts        numbers on a path: exact ones, one for each thread, or sums of unknowns

May import what the checker may, and of the checker its graph, forms and sites. Public:
`phase_paths.follow`; faults are those of `checker.phase_faults`.
"""
