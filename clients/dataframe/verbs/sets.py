"""Verbs that put frames below each other, or compare them row by row."""

from __future__ import annotations

from typing import Self

from fabric.clients.dataframe.lowering.sets import by_name, compared, numbered
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import nodes


class SetVerbs(Verbs):
    """``union``, ``intersect``, ``except_`` and their like."""

    __slots__ = ()

    def union(self, *others: Self, by_name: bool = False) -> Self:
        """All rows of all, doubles kept; columns are matched by position, or `by_name`.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1]}).union(DataFrame({"a": [2]})).count()
        2
        """
        wrong = [type(other).__name__ for other in others if not isinstance(other, Verbs)]
        if wrong or not others:
            raise PlanError(f"union takes DataFrames, got {', '.join(wrong) or 'none'}")
        if by_name:
            return self.union_by_name(*others)
        return self._with(others, nodes.Union((self._node, *(o._node for o in others))))

    def union_by_name(self, *others: Self, allow_missing: bool = False) -> Self:
        """All rows of all, columns matched by name.

        With `allow_missing` a column that one side lacks is null there; the columns only others
        have come last.

        >>> from fabric import DataFrame
        >>> left, right = DataFrame({"a": [1]}), DataFrame({"b": ["x"]})
        >>> left.union_by_name(right, allow_missing=True).sort("a").collect().to_pylist()
        [{'a': None, 'b': 'x'}, {'a': 1, 'b': None}]
        """
        frames = [self, *(self._other(other, "union_by_name") for other in others)]
        if len(frames) == 1:
            raise PlanError("union_by_name takes DataFrames, got none")
        inputs = by_name([frame._node for frame in frames], allow_missing)
        return self._with(others, nodes.Union(inputs))

    def intersect(self, other: Self) -> Self:
        """The different rows that both have; nulls are equal, and so are NaNs.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, 1, None]})
        >>> df.intersect(DataFrame({"a": [1, None]})).sort("a").collect().to_pydict()
        {'a': [None, 1]}
        """
        return self._compared(other, "intersect", both=True, all_=False)

    def intersect_all(self, other: Self) -> Self:
        """The rows that both have, each as often as in the side that has fewer of it."""
        return self._compared(other, "intersect_all", both=True, all_=True)

    def except_(self, other: Self) -> Self:
        """The different rows that `other` does not have; nulls are equal.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 1, 2]}).except_(DataFrame({"a": [2]})).collect().to_pydict()
        {'a': [1]}
        """
        return self._compared(other, "except_", both=False, all_=False)

    def except_all(self, other: Self) -> Self:
        """The rows, each as often as it is here more often than in `other`."""
        return self._compared(other, "except_all", both=False, all_=True)

    def _compared(self, other: Self, verb: str, *, both: bool, all_: bool) -> Self:
        self._other(other, verb)
        mine, theirs = self._node, other._node
        self._with((other,), nodes.Union((mine, theirs)))  # refuses what can't be compared
        name = verb.strip("_")
        if all_:
            mine, theirs = numbered(mine, name), numbered(theirs, name)
        return self._with((other,), compared(mine, theirs, self.columns, name, both=both))

    union_all = union
    vstack = union
    subtract = except_
