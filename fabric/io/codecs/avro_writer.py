"""Columns written with an Avro schema: a program for the native encoder.

One job: `written_program`. A column goes to the field with its name. The allowed conversions are
the table of `avro_arrow` in reverse, plus lossless ones: int32 as long, a string as an enum, a time
in a finer unit. A value that does not fit its field is an error that names the row and the column;
nothing is truncated.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.codecs.avro_arrow import row_of
from fabric.io.codecs.avro_nodes import (
    Compiler,
    Op,
    Program,
    datum,
    is_binary,
    is_list,
    is_members,
    is_text,
    numbered,
    ratio,
    varint,
)
from fabric.io.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType


def written_program(columns: pa.Schema, avro: AvroType) -> Program:
    """How rows of `columns` become rows of `avro`.

    Raises
    ------
    PlanError
        If a column has no field, a field without a default has no column, or their types are
        incompatible; the message names the path.
    Examples
    --------
    >>> from fabric.io.codecs.avro_arrow import derived_avro
    >>> columns = pa.schema([("x", pa.int64())])
    >>> [Op(node[0]).name for node in written_program(columns, derived_avro(columns)).nodes]
    ['LONG', 'UNION', 'RECORD']
    """
    made = _Writer()
    record = row_of(avro)
    root = made.add(Op.RECORD, children=made.fields(list(columns), record, 0, record.name))
    if avro.kind == "union":
        index = next(n for n, branch in enumerate(avro.branches) if branch is record)
        root = made.add(Op.RECORD, children=[made.constant(varint(index)), root])
    return Program(tuple(made.nodes), tuple(made.texts), root)


class _Writer(Compiler):
    """Builds the nodes of columns that are written."""

    def constant(self, text: bytes) -> int:
        return self.add(Op.DEFAULT, a=self.text(text))

    def fields(self, columns: list[pa.Field], avro: AvroType, first: int, path: str) -> list[int]:
        """Children of a record: each of its fields, in its order."""
        places = dict(zip((f.name for f in columns), numbered(columns, first), strict=True))
        types = {f.name: f.type for f in columns}
        children = []
        for one in avro.fields:
            inner = f"{path}.{one.name}"
            if one.name in places:
                place = places.pop(one.name)
                children.append(self.value(types[one.name], one.type, place, inner))
            else:
                children.append(self.absent(one, inner))
        if places:
            raise PlanError(f"column {path}.{next(iter(places))} is not a field of Avro {avro}")
        return children

    def absent(self, field: AvroField, path: str) -> int:
        if field.default is NO_DEFAULT:
            raise PlanError(f"Avro field {path} has neither a column nor a default")
        return self.constant(datum(field.default, field.type, path))

    def value(self, arrow: pa.DataType, avro: AvroType, column: int, path: str) -> int:
        """The node that writes one value of `column` as `avro`."""
        if avro.kind != "union":
            return self.plain(arrow, avro, column, path)
        null = next((n for n, one in enumerate(avro.branches) if one.kind == "null"), -1)
        members = [(n, one) for n, one in enumerate(avro.branches) if one.kind != "null"]
        if len(members) > 1 and is_members(arrow):
            return self.members(arrow, members, null, (column, path))
        if pa.types.is_null(arrow) and null >= 0:
            return self.constant(varint(null))
        refused = None
        for index, one in sorted(members, key=lambda member: not _same(arrow, member[1])):
            try:
                child = self.plain(arrow, one, column, path)
            except PlanError as error:
                refused = refused or error
                continue
            return self.add(Op.UNION, column, null, index, [child])
        raise refused or _refused(path, avro, arrow)

    def members(
        self,
        arrow: pa.DataType,
        members: list[tuple[int, AvroType]],
        null: int,
        where: tuple[int, str],
    ) -> int:
        """A union of several branches, from the struct that it is read as."""
        column, path = where
        children = []
        fields = list(arrow)
        for one, place in zip(fields, numbered(fields, column + 1), strict=True):
            number = int(one.name.removeprefix("member"))
            if number >= len(members):
                raise PlanError(f"column {path}.{one.name} is not a branch of its Avro union")
            index, avro = members[number]
            children += [index, self.plain(one.type, avro, place, path)]
        return self.add(Op.MEMBER, column, null, 0, children)

    def plain(self, arrow: pa.DataType, avro: AvroType, column: int, path: str) -> int:
        """A value of a type that is not a union."""
        kind, t = avro.kind, pa.types
        if kind == "record" and t.is_struct(arrow):
            return self.add(
                Op.RECORD, column, children=self.fields(list(arrow), avro, column + 1, path)
            )
        if kind == "array" and is_list(arrow):
            item = self.value(arrow.value_type, avro.values, column + 1, f"{path}[]")
            return self.add(Op.ARRAY, column, children=[item])
        if kind == "map" and t.is_map(arrow) and t.is_string(arrow.key_type):
            key = self.add(Op.BYTES, column + 2)
            value = self.value(arrow.item_type, avro.values, column + 3, f"{path}{{}}")
            return self.add(Op.MAP, column, children=[key, value])
        if kind == "enum" and is_text(arrow):
            first = len(self.texts)
            self.texts += [symbol.encode() for symbol in avro.symbols]
            return self.add(Op.ENUM, column, first, len(avro.symbols))
        return self.scalar(arrow, avro, column, path)

    def scalar(self, arrow: pa.DataType, avro: AvroType, column: int, path: str) -> int:
        kind, t = avro.kind, pa.types
        if kind == "null" and t.is_null(arrow):
            return self.add(Op.NULL, column)
        if kind == "boolean" and t.is_boolean(arrow):
            return self.add(Op.BOOLEAN, column)
        if kind in ("int", "long") and not t.is_floating(arrow) and (found := _turned(avro, arrow)):
            return self.add(Op.INT if kind == "int" else Op.LONG, column, *found)
        if kind == "float" and t.is_float32(arrow):
            return self.add(Op.FLOAT, column)
        if kind == "double" and (t.is_float32(arrow) or t.is_float64(arrow) or t.is_int32(arrow)):
            return self.add(Op.DOUBLE, column)
        if avro.logical == "decimal" and t.is_decimal(arrow):
            if arrow.scale == avro.scale and arrow.precision <= avro.precision:
                return self.add(Op.DECIMAL, column, avro.size if kind == "fixed" else -1)
        elif kind in ("bytes", "string") and (is_text(arrow) or is_binary(arrow)):
            if kind == "bytes" or is_text(arrow):
                return self.add(Op.BYTES, column)
        elif avro.logical == "duration" and t.is_interval(arrow):
            return self.add(Op.DURATION, column)
        elif kind == "fixed" and t.is_fixed_size_binary(arrow) and arrow.byte_width == avro.size:
            return self.add(Op.FIXED, column, avro.size)
        raise _refused(path, avro, arrow)


def _turned(avro: AvroType, arrow: pa.DataType) -> tuple[int, int] | None:
    """Factor and divisor of the conversion from `arrow` to an int or long."""
    if pa.types.is_integer(arrow):
        wide = pa.types.is_int64(arrow) or pa.types.is_uint64(arrow) or pa.types.is_uint32(arrow)
        return None if avro.kind == "int" and wide else (1, 1)
    found = ratio(avro, arrow)
    return None if found is None else (found[1], found[0])


def _same(arrow: pa.DataType, avro: AvroType) -> bool:
    """Whether a branch has exactly the type of a column."""
    return avro.kind == {"int32": "int", "float": "float", "double": "double"}.get(str(arrow))


def _refused(path: str, avro: AvroType, arrow: pa.DataType) -> PlanError:
    return PlanError(f"column {path} is {arrow}, which can't be written as Avro {avro}")
