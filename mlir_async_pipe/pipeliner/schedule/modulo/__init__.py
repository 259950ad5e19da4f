"""Schedules by the latencies of statements (modulo scheduling); `by_latency` is the way in.

read      the loop as numbers        problem   what they mean, and what no schedule can beat
stages    stages for a kernel order, and how fast a schedule is
search    the best of all orders     trial     a schedule run with the machine's clocks
timetable the best of all begins on several units, with what proves it
by_units  the way in for schedules over units: a loop as tasks, and what is said of the answer
"""
