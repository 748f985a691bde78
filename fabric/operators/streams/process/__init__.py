"""Users' functions of the rows of each key, with state and timers.

operator.py       the operator of `KeyedProcess`: what is called when
broadcast.py      the same where every task also holds the rows of another input whole
calls.py          one call: undone when it fails, by policy, and ended when it takes too long
context.py        what a call may use: states, timers, side outputs
timer_service.py  timers that a call set or took back, and those due, a layer of keys at a time
returned_rows.py  what a call returned, as rows of the declared schema
"""
