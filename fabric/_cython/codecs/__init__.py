"""Row formats: values (bytes) decoded into columns, and columns encoded as values.

Each format is a pair of C++ classes behind one interface (`codec.pyx`). Nothing here does I/O or is
specific to topics or files.
"""
