"""Asynchronous calls of a user's function: the operator of `MapAsync`.

pending.py    what each request does when: a pure state machine
call_loop.py  an event loop in a thread of its own, which makes the requests
answers.py    what a function gave back, as rows of the schema that was declared
operator.py   rows in, answers out; event time is held back, and what is pending is in the snapshot
"""
