"""A writer's Avro schema, resolved to a reader's columns: a program for the native decoder.

One job: `avro_program`. It follows the specification's "Schema Resolution": promotions, defaults,
aliases, missing and extra fields, enums with a default, unions by the first branch that fits. In
addition:

- Without a reader's schema only the columns count: fields are matched by name, a column that the
  writer does not have is null, and record names are ignored.
- Logical types are converted: a timestamp in milliseconds read as microseconds is multiplied. A row
  with a value more precise than the column's unit is bad; no digits are dropped silently.
- A column may have a narrower Arrow type that Avro lacks (int8 from int, uint64 from long): a row
  with a value out of range is bad. A plain int or long may be read as a date, time or timestamp in
  the column's unit.
- If one branch of a writer's union can't be resolved, rows with that branch are bad, as the
  specification says; if nothing can be resolved, that is an error before anything is read.

Fields without a column are skipped, not decoded, including recursive ones.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.codecs.avro_arrow import matching, members_of, row_of
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
)
from fabric.io.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType


def avro_program(writer: AvroType, columns: pa.Schema, reader: AvroType | None = None) -> Program:
    """The program that reads rows of `writer` into `columns`; a `reader` applies schema resolution.

    Raises
    ------
    PlanError
        If a column can't be read from the writer's schema; the message names its path.
    Examples
    --------
    >>> from fabric.io.codecs.avro_schema import parse_avro
    >>> field = '{"name": "x", "type": "int"}'
    >>> writer = parse_avro('{"type": "record", "name": "P", "fields": [' + field + "]}")
    >>> program = avro_program(writer, pa.schema([("x", pa.int64())]))
    >>> [Op(node[0]).name for node in program.nodes]
    ['INT', 'RECORD']
    """
    made = _Resolver()
    source, target = row_of(writer), None if reader is None else row_of(reader)
    if target is not None and not matching(source, target):
        raise PlanError(f"Avro {source} can't be read as {target}: the names differ")
    fields = made.record(source, target, list(columns), 0, source.name)
    root = made.add(Op.RECORD, children=fields)
    if writer.kind == "union":
        null = made.fail("the row is null")
        root = made.add(
            Op.UNION, children=[null if b.kind == "null" else root for b in writer.branches]
        )
    return Program(tuple(made.nodes), tuple(made.texts), root)


class _Resolver(Compiler):
    """Makes the nodes of a writer's types."""

    def record(
        self,
        writer: AvroType,
        reader: AvroType | None,
        fields: list[pa.Field],
        first: int,
        path: str,
    ) -> list[int]:
        """Children of a record: its fields as they are written, then what it does not have."""
        places = dict(zip((f.name for f in fields), numbered(fields, first), strict=True))
        types = {f.name: f.type for f in fields}
        children = []
        for source in writer.fields:
            target = None if reader is None else _reader_field(source, reader)
            name = source.name if reader is None else target.name if target else ""
            if name not in types:
                children.append(self.skip(source.type))
                continue
            inner = None if target is None else target.type
            place = places.pop(name)
            children.append(
                self.value(source.type, inner, types[name], place, f"{path}.{source.name}")
            )
        for name, place in places.items():
            children.append(self.missing(name, reader, types[name], place, path))
        return children

    def missing(
        self, name: str, reader: AvroType | None, arrow: pa.DataType, column: int, path: str
    ) -> int:
        """A column that the writer's record does not have."""
        if reader is None:
            return self.add(Op.NULL, column)
        found = next((f for f in reader.fields if f.name == name), None)
        if found is None:
            raise PlanError(f"column {path}.{name} is not a field of the reader's Avro {reader}")
        if found.default is NO_DEFAULT:
            raise PlanError(
                f"Avro {path} as it was written has no field {name!r}, and the reader's has no "
                "default for it"
            )
        value = datum(found.default, found.type, f"{path}.{name}")
        child = self.value(found.type, found.type, arrow, column, f"{path}.{name}")
        return self.add(Op.DEFAULT, a=self.text(value), children=[child])

    def value(
        self, writer: AvroType, reader: AvroType | None, arrow: pa.DataType, column: int, path: str
    ) -> int:
        """The node that reads one value of `writer` into `column`."""
        if reader is None and len(members_of(writer)) > 1 and is_members(arrow):
            reader = writer
        if writer.kind == "union":
            return self.union(writer, reader, arrow, column, path)
        if reader is not None and reader.kind == "union":
            branch = _chosen(writer, reader, path)
            members = members_of(reader)
            if branch.kind != "null" and len(members) > 1 and is_members(arrow):
                place = next(n for n, one in enumerate(members) if one is branch)
                return self.member(writer, branch, arrow, column, (place, path))
            reader = branch
        if reader is not None and not matching(writer, reader):
            raise PlanError(f"Avro {path} was written as {writer}, which can't be read as {reader}")
        if writer.kind == "null":
            return self.add(Op.NULL, column)
        return self.plain(writer, reader, arrow, column, path)

    def union(
        self, writer: AvroType, reader: AvroType | None, arrow: pa.DataType, column: int, path: str
    ) -> int:
        """Each branch by itself; one that can't be read is a bad row, all of them an error."""
        children, error = [], None
        for branch in writer.branches:
            try:
                children.append(self.value(branch, reader, arrow, column, path))
            except PlanError as refused:
                children.append(self.fail(refused.message))
                if branch.kind != "null":
                    error = error or refused
        ops = {
            Op(self.nodes[c][0])
            for c, b in zip(children, writer.branches, strict=True)
            if b.kind != "null"
        }
        if error is not None and ops == {Op.FAIL}:
            raise error
        return self.add(Op.UNION, column, children=children)

    def member(
        self,
        writer: AvroType,
        branch: AvroType,
        arrow: pa.DataType,
        column: int,
        where: tuple[int, str],
    ) -> int:
        """A struct whose field `member<n>` is the value."""
        place, path = where
        fields = list(arrow)
        index = next((n for n, f in enumerate(fields) if f.name == f"member{place}"), -1)
        if index < 0:
            return self.add(Op.MEMBER, column, -1, children=[self.skip(writer)])
        inner = numbered(fields, column + 1)[index]
        child = self.value(writer, branch, fields[index].type, inner, path)
        return self.add(Op.MEMBER, column, index, children=[child])

    def plain(
        self, writer: AvroType, reader: AvroType | None, arrow: pa.DataType, column: int, path: str
    ) -> int:
        """A value that is neither null nor a union."""
        inner = None if reader is None else reader.items
        if writer.kind == "record" and pa.types.is_struct(arrow):
            fields = self.record(writer, reader, list(arrow), column + 1, path)
            return self.add(Op.RECORD, column, children=fields)
        if writer.kind == "array" and is_list(arrow):
            item = self.value(writer.values, inner, arrow.value_type, column + 1, f"{path}[]")
            return self.add(Op.ARRAY, column, _least(writer.values), children=[item])
        if writer.kind == "map" and pa.types.is_map(arrow):
            if not pa.types.is_string(arrow.key_type):
                raise _refused(path, writer, arrow)
            key = self.add(Op.BYTES, column + 2)
            value = self.value(writer.values, inner, arrow.item_type, column + 3, f"{path}{{}}")
            return self.add(Op.MAP, column, 1 + _least(writer.values), children=[key, value])
        if writer.kind == "enum" and is_text(arrow):
            return self.enum(writer, reader, column)
        return self.scalar(writer, arrow, column, path)

    def enum(self, writer: AvroType, reader: AvroType | None, column: int) -> int:
        """Symbols as text; one that the reader does not have is its default, or a bad row."""
        texts, known = [], []
        for symbol in writer.symbols:
            read: str | None = symbol
            if reader is not None and reader.kind == "enum" and symbol not in reader.symbols:
                read = reader.default
            known.append(read is not None)
            texts.append((read or symbol).encode())
        first = len(self.texts)
        self.texts += texts
        return self.add(Op.ENUM, column, first, len(texts), [int(one) for one in known])

    def scalar(self, writer: AvroType, arrow: pa.DataType, column: int, path: str) -> int:
        """A value without others inside."""
        kind, t = writer.kind, pa.types
        if kind == "boolean" and t.is_boolean(arrow):
            return self.add(Op.BOOLEAN, column)
        if kind in ("int", "long") and (found := ratio(writer, arrow)):
            return self.add(Op.INT if kind == "int" else Op.LONG, column, *found)
        if kind == "float" and (t.is_float32(arrow) or t.is_float64(arrow)):
            return self.add(Op.FLOAT, column)
        if kind == "double" and t.is_float64(arrow):
            return self.add(Op.DOUBLE, column)
        if writer.logical == "decimal" and t.is_decimal(arrow) and _holds(arrow, writer):
            return self.add(Op.DECIMAL, column, writer.size if kind == "fixed" else -1)
        if kind in ("bytes", "string") and (is_text(arrow) or is_binary(arrow)):
            return self.add(Op.BYTES, column)
        if writer.logical == "duration" and t.is_interval(arrow):
            return self.add(Op.DURATION, column)
        if kind == "fixed" and t.is_fixed_size_binary(arrow) and arrow.byte_width == writer.size:
            return self.add(Op.FIXED, column, writer.size)
        raise _refused(path, writer, arrow)

    def skip(self, writer: AvroType) -> int:
        """The node that reads a value and drops it; a type that holds itself is met again."""
        if (found := self.skipped.get(id(writer))) is not None:
            return found
        if writer.name:  # its number is known before its children's
            place = self.skipped[id(writer)] = self.add(Op.NULL)
        op, a, children = self.skipping(writer)
        if not writer.name:
            return self.add(op, a=a, children=children)
        self.nodes[place] = (int(op), -1, a, 0, tuple(children))
        return place

    def skipping(self, writer: AvroType) -> tuple[Op, int, list[int]]:
        """Operation, `a` and children of a node that drops what it reads."""
        match writer.kind:
            case "union":
                return Op.UNION, 0, [self.skip(branch) for branch in writer.branches]
            case "record":
                return Op.RECORD, 0, [self.skip(one.type) for one in writer.fields]
            case "array":
                return Op.ARRAY, _least(writer.values), [self.skip(writer.values)]
            case "map":
                children = [self.add(Op.BYTES), self.skip(writer.values)]
                return Op.MAP, 1 + _least(writer.values), children
            case "fixed":
                return Op.FIXED, writer.size, []
            case "string":
                return Op.BYTES, 0, []
            case "enum":
                return Op.INT, 0, []
            case kind:
                return Op[kind.upper()], 0, []


def _reader_field(writer: AvroField, reader: AvroType) -> AvroField | None:
    """The reader's field that a writer's is: by name, else by one of the reader's aliases."""
    same = next((f for f in reader.fields if f.name == writer.name), None)
    return same or next((f for f in reader.fields if writer.name in f.aliases), None)


def _chosen(writer: AvroType, reader: AvroType, path: str) -> AvroType:
    """The branch of the reader's union that a value of `writer` goes to."""
    same = [one for one in reader.branches if one.kind == writer.kind and matching(writer, one)]
    found = next(iter(same), None) or next(
        (one for one in reader.branches if matching(writer, one)), None
    )
    if found is None:
        raise PlanError(f"Avro {path} was written as {writer}, which is no branch of the reader's")
    return found


def _least(writer: AvroType, outer: tuple[AvroType, ...] = ()) -> int:
    """The fewest bytes of a value: what bounds how many may follow a count."""
    if writer.kind == "record":
        if any(writer is one for one in outer):
            return 0
        inner = (*outer, writer)
        return min(sum(_least(one.type, inner) for one in writer.fields), 1 << 30)
    if writer.kind == "union":
        return 1 + min(_least(branch, outer) for branch in writer.branches)
    return {"null": 0, "float": 4, "double": 8, "fixed": writer.size}.get(writer.kind, 1)


def _holds(arrow: pa.DataType, writer: AvroType) -> bool:
    return bool(arrow.scale == writer.scale and arrow.precision >= writer.precision)


def _refused(path: str, writer: AvroType, arrow: pa.DataType) -> PlanError:
    return PlanError(f"Avro {path} was written as {writer}, which can't be read as {arrow}")
