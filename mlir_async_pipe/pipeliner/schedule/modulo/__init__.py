"""Modulo schedules: a loop as a problem, its best schedule, and the kernel that comes of it.

read           the loop as numbers
by_latency, by_units   the ways in: these numbers as a problem over one thread, or over functional units
problem        tasks, precedences, live ranges; what no schedule can beat
solve          the best schedule, with what proves it
schedule_loop  the schedule as stages and orders of statements; what is said of it
trial          its kernel, planned as the expander would and timed with the machine's clocks
"""
