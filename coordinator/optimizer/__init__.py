"""Rewrites of a logical plan that keep its meaning: one function a rule, rules of one idea a file.

A rule takes a node and returns another or the very same object. Two promises hold for each: the
rows stay the same, and no error appears that the plan as written would not have raised (errors may
disappear, as in Spark). So an expression that can fail never moves below something that kept rows
away from it.
"""
