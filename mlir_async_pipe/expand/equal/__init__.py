"""Loops of equal structure are planned once, and equal functions expanded once.

What makes them equal, the plan of one loop for another (`shared_plans`), and the body of one function
for another (`equal_functions`). Imports what plans are made of, and knows no step of planning.
"""
