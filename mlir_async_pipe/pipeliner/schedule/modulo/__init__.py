"""Schedules by the latencies of statements (modulo scheduling); `by_latency` is the way in.

read      the loop as numbers        bounds    what no schedule can beat
timing    how fast a schedule is     stages    stages for a kernel order
orders    orders to begin with       search    the best of all orders
trial     a schedule as the expander would plan it, run with the machine's clocks
"""
