"""Passes that edit, ask the checker, and keep or undo.

Public: `insert_barriers`, `drop_barriers`, `drop_drains`, `attach_tokens` (with `relax_waits`), `recount_existing`.
Imports checker and waits.
"""
