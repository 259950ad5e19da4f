"""Phases: mbarriers, the copies that complete on them, and the products that read what came.

    followed_kernel  a kernel, with roles if it has some
    phase_paths      all paths, and threads that take different ones; path_state: one point of a path
    op_effects       what an op arrives at, waits for, copies, reads and writes; memory_bounds: what is certainly
                     beyond its group, buffer or columns
    block_memory     who may touch which bytes; mbarrier_state: arrivals, bytes, phases; tensor_state: tensor
                     memory; all by warp_clocks, the vector clocks of threads or warps
    cluster_blocks   blocks of a cluster as such roles
    amounts          numbers on a path: exact ones, one for each thread, addresses, or sums of unknowns;
                     ranges_of_sums: what a path knows of these

May import what the checker may, and of the checker its graph, forms and sites. Public:
`followed_kernel.follow`; faults are those of `checker.phase_faults`.
"""
