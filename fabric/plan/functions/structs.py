"""Functions of structs: struct struct_field.

One job: their types. The names of fields are constants; they stand before the values in turn.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault, listed, nearest
from fabric.plan.functions.registry import Arguments, Function, Signature, wrong_type
from fabric.plan.types import flat_type, is_string, is_struct


def named(function: str, args: Arguments) -> list[str]:
    """The names in a call of names and values in turn."""
    if len(args.types) % 2:
        raise ArgumentFault(f"{function} takes names and values in turn, got {len(args.types)}")
    names = [_name(function, args, index) for index in range(0, len(args.types), 2)]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ArgumentFault(f"{function} is given the name {twice!r} twice")
    return names


def _name(function: str, args: Arguments, index: int) -> str:
    literal = args.literals[index]
    if literal is None or not is_string(literal.dtype) or literal.value is None:
        raise ArgumentFault(f"{function} needs a constant name as argument {index + 1}")
    return str(literal.value)


def _struct(args: Arguments) -> Signature:
    names = named("struct", args)
    types = [flat_type(dtype) for dtype in args.types[1::2]]
    taken = tuple(dtype for each in types for dtype in (pa.string(), each))
    return Signature(taken, pa.struct([*zip(names, types, strict=True)]))


def _field(args: Arguments) -> Signature:
    dtype = args.types[0]
    if not is_struct(dtype):
        raise wrong_type("struct_field", 0, dtype, "a struct", None)
    name = _name("struct_field", args, 1)
    whole = flat_type(dtype)
    index = whole.get_field_index(name)
    if index < 0:
        raise _unknown(name, whole)
    return Signature((whole, pa.string()), whole.field(index).type)


def _unknown(name: str, dtype: pa.DataType) -> ArgumentFault:
    if dtype.names.count(name) > 1:
        return ArgumentFault(f"the struct has more than one field {name!r}")
    near = nearest(name, dtype.names)
    return ArgumentFault(
        f"the struct has no field {name!r}; its fields are {listed(dtype.names)}",
        -1 if near is None else 1,
        None if near is None else Literal(near, pa.string()),
    )


FUNCTIONS = (
    Function("struct", (2, None), _struct, "named values; names (constants) and values in turn",
             total=True),
    Function("struct_field", (2, 2), _field,
             "the field b (constant) of a struct; null when the struct is", (1,), total=True,
             text=".struct.field"),
)  # fmt: skip
