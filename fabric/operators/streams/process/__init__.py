"""Users' functions of the rows of each key, with state and timers.

operator.py    the operator of `KeyedProcess`: what is called when
calls.py       one call: undone when it fails, by policy
context.py     what a call may use; keyed.py: the states of one key
requests.py    timers that a call set or took back
due.py         timers that are due, a layer of keys at a time
returned.py    what a call returned, as rows of the declared schema
deadline.py    an end to calls that take too long
"""
