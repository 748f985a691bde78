"""Patterns of text functions, in a form that all engines read alike.

regex.py        regular expressions: the common part of Java's and RE2's, in a normal form; the
                check of patterns of LIKE (``%`` and ``_``)
parser.py       how they are read
parts.py        what they are made of
charset.py      sets of characters inside them
replacement.py  what a match is replaced by, with ``$1`` for its groups
"""
