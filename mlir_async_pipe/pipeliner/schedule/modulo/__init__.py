"""Modulo schedules: a loop as a problem, its best schedule, and the kernel that comes of it.

read           the loop as numbers
problems       the ways in: these numbers as a problem over one thread, or over functional units
rings          the way in of tensor copies: who copies, on how many slots, over groups of warps
solve          tasks, precedences, live ranges; the best schedule, with what proves it
schedule_loop  the schedule as stages and orders of statements, its kernel planned and timed
"""
