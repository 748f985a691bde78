"""What is wrong with an expression, before it is known which node holds it.

One job: carry the message and, when there is one, the mended expression, from type inference up to
where it becomes a `PlanError` with the node's path and its mended line. Never leaves `fabric.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from fabric.plan.expr import Expr

_SHOWN = 12
_LIKE, _LIKE_BEGUN = 0.7, 0.65
"""How much two names have in common, the second where they begin alike; at 0.6 an "item" is a
"filter"."""


class ExprFault(Exception):
    """`message` says what is wrong with `old`; `new` would be right in its place, when known."""

    def __init__(self, message: str, old: Expr | None = None, new: Expr | None = None) -> None:
        super().__init__(message)
        self.message, self.old, self.new = message, old, new


class ArgumentFault(Exception):
    """A function's argument `index` has a type it can't take; cast to `wanted` it could."""

    def __init__(self, message: str, index: int = -1, wanted: object = None) -> None:
        super().__init__(message)
        self.message, self.index, self.wanted = message, index, wanted


def quoted(name: str) -> str:
    """A name as a Python string with double quotes, whatever it holds.

    >>> print(quoted('a"b'))
    "a\\"b"
    """
    return '"' + "".join(map(_escaped, name)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else repr(character)[1:-1]


def with_article(noun: str) -> str:
    """`noun` with its article.

    >>> with_article("int"), with_article("str")
    ('an int', 'a str')
    """
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def arguments_text(number: str) -> str:
    """How many arguments.

    >>> arguments_text("1"), arguments_text("1 to 2")
    ('1 argument', '1 to 2 arguments')
    """
    return f"{number} argument{'' if number == '1' else 's'}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `name` was most likely meant to be, or None.

    >>> nearest("dealy", ["delay", "carrier"]), nearest("CARRIER", ["delay", "carrier"])
    ('delay', 'carrier')
    >>> nearest("notna", ["union"]), nearest("item", ["filter"]), nearest("kk", ["k"])
    (None, None, 'k')
    """
    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    wanted = name.casefold()
    for close in get_close_matches(wanted, folded, n=3, cutoff=0.6):
        begins = wanted.startswith(close) or close.startswith(wanted)
        least = _LIKE_BEGUN if close[:1] == wanted[:1] else _LIKE
        if begins or SequenceMatcher(a=close, b=wanted).ratio() >= least:
            return folded[close]
    return None


def listed(names: Iterable[str]) -> str:
    """Names for a message; a long list is cut.

    >>> print(listed(["a", "b c"]))
    "a", "b c"
    """
    names = list(names)
    shown = ", ".join(quoted(name[:80]) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown or "none"
