"""From counted waits to code: `lower` is the call, `nvvm/` and `rocdl/` one folder a vendor,
`scopes/` what both do with abstract ops and masked copies. Imports everything but machine and tool.
"""
