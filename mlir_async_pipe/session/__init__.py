"""What a pass is given and what it says: diagnostics, records, the registry of passes.

Public: `diagnostics` (the exception tree, places, remarks), `report` (Session, Report),
`passes` (register, find, options). Imports nothing of this package but the type of a target.
"""
