"""A search over all interleavings of warps, copies and products on mbarriers; shares nothing with
the package."""
