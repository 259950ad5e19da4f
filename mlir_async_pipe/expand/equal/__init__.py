"""Loops of equal structure are planned once: what makes them equal, and the plan of one for another.

Imports what plans are made of, and knows no step of planning. `plan_of` is public (`shared_plans`).
"""
