"""Empty on purpose: the ops of `async_pipe` are unregistered and have no classes.

The bindings look for a module of op classes whenever they wrap an op, and look again for
every op as long as they find none (docs/speed.md). Finding this one ends it.
"""
