"""From counted waits to code: `lower` is the call, or `begin` and later its result; `nvvm/` and
`rocdl/` are one folder a vendor, each a list of `ordered_steps`, and `scopes/` what both do with
abstract ops and masked copies. Imports everything but machine and tool.
"""
