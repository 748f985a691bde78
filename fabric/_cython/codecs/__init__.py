"""Rows in the form of messages: values of bytes decoded into columns, and columns encoded.

Each format is a pair of classes of C++ behind one face (`codec.pyx`); nothing here reads or writes
anything, and nothing here is a topic's or a file's alone.
"""
