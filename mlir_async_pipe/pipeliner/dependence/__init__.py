"""Dependences of a loop: through values and memory, with distances in iterations.

`regions` says where each access lands, `distance` at which iteration distances two accesses
meet, `footprint` which elements a block's threads cover together, `privatise` whether
iterations may have copies of a buffer, `memory` all dependences of a body.
"""
