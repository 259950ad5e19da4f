"""Phases: mbarriers, the copies that complete on them, and the products that read what came.

    followed_kernel  a kernel, with roles if it has some
    phase_paths    all paths; parted_sides, role_strands: threads that go different ways
    op_effects     what an op arrives at, waits for, copies, reads and writes there
    arrivals       mbarriers: arrivals, bytes and phases; async_memory: who may touch which bytes
    role_phases    the same between roles, role_memory, by warp_clocks: what warps know of each other
    cluster_blocks blocks of a cluster as such roles; cluster_memory: what they do to each other's
    memory_ends    what is surely beyond its group, buffer or columns
    amounts        numbers on a path: exact ones, one for each thread, or sums of unknowns

May import what the checker may, and of the checker its graph, forms and sites. Public:
`followed_kernel.follow`; faults are those of `checker.phase_faults`.
"""
