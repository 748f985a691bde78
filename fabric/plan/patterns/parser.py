"""Reads a regular expression, and writes its normal form.

One job: `Parser`::

    alternation := sequence ('|' sequence)*
    sequence    := (item quantifier?)*
    item        := character | . | [class] | ^ | $ | (alternation) | \\escape
    quantifier  := ('*' | '+' | '?' | '{n}' | '{n,}' | '{n,m}') '?'?
"""

from __future__ import annotations

import re

from fabric.plan.patterns import charset
from fabric.plan.patterns.charset import Ranges
from fabric.plan.patterns.parts import Edge, Open, Part, PatternFault

_REPEAT_MAX = 1000
_DEPTH_MAX = 50
_REPEATS = ("*", "+", "?", "{")
_REPEAT = re.compile(r"\{(\d{1,9})(,(\d{1,9})?)?\}")
_FLAGS = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAME = re.compile(r"P?<([A-Za-z][A-Za-z0-9]*)>")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_RUST_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "v": "\v"}
_LOOKS = {"?=": "look-ahead", "?!": "look-ahead", "?<=": "look-behind", "?<!": "look-behind",
          "?>": "an atomic group"}  # fmt: skip
_ESCAPES_REFUSED = {
    "Z": "\\Z (the end before a line end); use $", "G": "\\G", "R": "\\R", "X": "\\X",
    "N": "\\N", "k": "a back-reference",
}  # fmt: skip
_CODES = {
    "0": re.compile(r"([0-3]?[0-7]{1,2})"),
    "x": re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}"),
    "u": re.compile(r"([0-9a-fA-F]{4})"),
}
"""Escapes by number of a character."""
_RUST_CODES = {
    "x": _CODES["x"],
    "u": re.compile(r"([0-9a-fA-F]{4})|\{([0-9a-fA-F]{1,6})\}"),
}
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")


class Parser:
    """Reads a pattern from the left; what it has read is in `parts`.

    `rust` reads it as Rust's regex does, and so Polars: classes, words and case are Unicode's.
    """

    def __init__(self, text: str, *, rust: bool = False) -> None:
        self.text, self.at, self.rust = text, 0, rust
        self.parts: list[Part] = []
        self.n_groups = 0
        self.names: dict[str, int] = {}
        self._depth = 0
        self._ignore_case = self._dot_is_all = False

    def fault(self, what: str, back: int = 0) -> PatternFault:
        """The fault of what is read now, or began `back` characters before."""
        return PatternFault(f"{what} at character {self.at - back + 1}")

    def alternation(self) -> bool:
        """Up to the end of a group; whether it may match nothing."""
        empty = self._sequence()
        while self._take("|"):
            self.parts.append("|")
            other = self._sequence()
            empty = empty or other
        return empty

    def _sequence(self) -> bool:
        empty = True
        while self._next() not in ("", "|", ")"):
            may_be_empty = self._item()
            empty = empty and may_be_empty
        return empty

    def _next(self, n: int = 1) -> str:
        return self.text[self.at : self.at + n]

    def _take(self, wanted: str) -> bool:
        taken = self.text.startswith(wanted, self.at)
        self.at += len(wanted) if taken else 0
        return taken

    def _character(self) -> str:
        if self.at >= len(self.text):
            raise self.fault("an unfinished pattern")
        self.at += 1
        return self.text[self.at - 1]

    # ---- items
    def _item(self) -> bool:
        begin = self.at
        match self._character():
            case "(":
                empty = self._group()
                if empty is None:
                    return True
            case "[":
                empty = self._add(self._class())
            case ".":
                line = charset.RUST_LINE if self.rust else charset.IN_LINE
                empty = self._add(charset.ANY if self._dot_is_all else line)
            case "^":
                return self._edge("^")
            case "$":
                return self._edge(r"\z")
            case "*" | "+" | "?" | "{":
                raise self.fault("nothing to repeat", 1)
            case "\\":
                empty = self._escape()
                if empty:
                    return self._edge(self.parts.pop())
            case character:
                empty = self._add(charset.of(character))
        return self._quantified(empty, begin)

    def _add(self, wanted: Ranges) -> bool:
        """One character of a set; false, since it does not match nothing."""
        if not wanted:
            raise self.fault("a class without characters", 1)
        self.parts.append(charset.text(self._folded(wanted)))
        return False

    def _folded(self, wanted: Ranges) -> Ranges:
        if not self._ignore_case:
            return wanted
        return charset.unicode_folded(wanted) if self.rust else charset.folded(wanted)

    def _edge(self, part: Part) -> bool:
        self.parts.append(part)
        if self._next() in _REPEATS:
            raise self.fault("a repeated edge")
        return True

    def _quantified(self, empty: bool, begin: int) -> bool:
        if self._next() not in _REPEATS:
            return empty
        least, text = self._repeat()
        if empty:
            raise self.fault("a repeated part that can match nothing", self.at - begin)
        text += "?" if self._take("?") else ""
        if self._next() == "+":
            raise self.fault("a possessive quantifier")
        if self._next() in _REPEATS:
            raise self.fault("a repeated repetition")
        self.parts.append(text)
        return least == 0

    def _repeat(self) -> tuple[int, str]:
        """The least number of times, and the text."""
        sign = self._character()
        if sign != "{":
            return (1 if sign == "+" else 0), sign
        found = _REPEAT.match(self.text, self.at - 1)
        if found is None:
            raise self.fault("a { that begins no repetition; write \\{", 1)
        least, most = int(found[1]), int(found[3] or found[1])
        if most < least or max(least, most) > _REPEAT_MAX or most == 0:
            raise self.fault(f"a repetition {found[0]}; it takes 1 to {_REPEAT_MAX}", 1)
        self.at = found.end()
        return least, found[0]

    def _group(self) -> bool | None:
        """The inside of a group and its end; None for flags, which are no group."""
        for start, what in _LOOKS.items():
            if self.text.startswith(start, self.at):
                raise self.fault(f"{what} ({start}", 1)
        flags = self._ignore_case, self._dot_is_all
        if self._take("?"):
            name = _NAME.match(self.text, self.at)
            if name is not None:
                self.at = name.end()
                self._capture(name[1])
            elif self._flags():
                return None
            else:
                self.parts.append("(?:")
        else:
            self._capture(None)
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self.fault(f"groups more than {_DEPTH_MAX} deep")
        empty = self.alternation()
        if not self._take(")"):
            raise self.fault("a group without its )")
        self._depth -= 1
        self._ignore_case, self._dot_is_all = flags
        self.parts.append(")")
        return empty

    def _capture(self, name: str | None) -> None:
        self.n_groups += 1
        if name is not None:
            if name in self.names:
                raise self.fault(f"a second group {name!r}")
            self.names[name] = self.n_groups
        self.parts.append(Open(self.n_groups))

    def _flags(self) -> bool:
        """Flags of the rest of a group, true; or of a group that begins here, false."""
        found = _FLAGS.match(self.text, self.at)
        if found is None:
            raise self.fault("an unknown kind of group (?", 2)
        for names, value in ((found[1], True), (found[2] or "", False)):
            for flag in names:
                if flag not in "is":
                    raise self.fault(f"the flag (?{flag})", 2)
                if flag == "i":
                    self._ignore_case = value
                else:
                    self._dot_is_all = value
        self.at = found.end()
        return found[3] == ")"

    # ---- escapes
    def _escape(self) -> bool:
        """What follows a backslash; true for an edge, which was added."""
        letter = self._next()
        word, no_word = Edge.WORD, Edge.NO_WORD
        if self.rust:
            word, no_word = Edge.UNICODE_WORD, Edge.NO_UNICODE_WORD
        edges: dict[str, Part] = {"b": word, "B": no_word, "A": "^", "z": r"\z"}
        if letter == "b" and self._next(2) == "b{":
            raise self.fault("a half of a word's edge \\b{")
        if letter in edges:
            self.at += 1
            self.parts.append(edges[letter])
            return True
        wanted = self._set()
        return self._add(charset.of(self._escaped()) if wanted is None else wanted)

    def _set(self) -> Ranges | None:
        """An escape that stands for several characters, or None."""
        letter = self._next()
        known = charset.unicode_escape if self.rust else charset.ESCAPES.get
        if letter and (found := known(letter.lower())) is not None:
            self.at += 1
            wanted = found
        elif letter in ("p", "P"):
            self.at += 1
            wanted = self._category()
        else:
            return None
        return charset.complement(wanted) if letter.isupper() else wanted

    def _category(self) -> Ranges:
        begin = self.at
        name = self._character()
        if name == "{":
            end = self.text.find("}", self.at)
            name, self.at = self.text[self.at : end], max(end, self.at) + 1
        wanted = charset.category(name) if self.rust else charset.named(name)
        if wanted is None:
            raise self.fault(f"the class \\p{{{name[:20]}}}", self.at - begin + 2)
        return self._folded(wanted)

    def _escaped(self) -> str:
        """An escape that stands for one character."""
        letter = self._character()
        control = _RUST_CONTROL if self.rust else _CONTROL
        if letter in control:
            return control[letter]
        for start, form in (_RUST_CODES if self.rust else _CODES).items():
            if letter == start:
                return self._code(form)
        if letter in _ESCAPES_REFUSED:
            raise self.fault(_ESCAPES_REFUSED[letter], 2)
        if letter.isdigit():
            raise self.fault("a back-reference", 2)
        if (letter.isascii() and letter.isalpha()) or (self.rust and letter in "<>"):
            raise self.fault(f"an unknown escape \\{letter}", 2)
        return letter

    def _code(self, form: re.Pattern[str]) -> str:
        found = form.match(self.text, self.at)
        if found is None:
            raise self.fault("an unfinished escape", 2)
        self.at = found.end()
        digits = next(part for part in found.groups() if part is not None)
        code = int(digits, 8 if form is _CODES["0"] else 16)
        if code > charset.LAST or 0xD800 <= code <= 0xDFFF:
            raise self.fault(f"an escape of no character: {digits}", len(found[0]) + 2)
        return chr(code)

    # ---- classes
    def _class(self) -> Ranges:
        begin = self.at - 1
        negated = self._take("^")
        if self._next() == "]":
            raise self.fault("a class that begins with ]; write \\]")
        found: list[tuple[int, int]] = []
        while not self._take("]"):
            if self.at >= len(self.text):
                raise self.fault("a class without its ]", self.at - begin)
            found.extend(self._class_part())
        wanted = self._folded(charset.ranges(*found))
        return charset.complement(wanted) if negated else wanted

    def _posix(self, found: re.Match[str]) -> Ranges:
        wanted = charset.posix(found[2])
        if wanted is None:
            raise self.fault(f"the class {found[0]}")
        self.at = found.end()
        return charset.complement(wanted) if found[1] else wanted

    def _class_part(self) -> Ranges:
        low = self._class_item()
        if self._next() != "-" or self._next(2) in ("-]", "-"):
            return low
        self.at += 1
        high = self._class_item()
        if any(len(side) != 1 or side[0][0] != side[0][1] for side in (low, high)):
            raise self.fault("a range that does not go from character to character", 1)
        if high < low:
            raise self.fault("a range that ends before it begins", 1)
        return ((low[0][0], high[0][0]),)

    def _class_item(self) -> Ranges:
        if self._next(2) == "&&" or (self.rust and self._next(2) in ("--", "~~")):
            what = "an intersection" if self._next(2) == "&&" else "a difference"
            raise self.fault(f"{what} of classes {self._next(2)}")
        if self.rust and (found := _POSIX.match(self.text, self.at)):
            return self._posix(found)
        character = self._character()
        if character == "[":
            raise self.fault("a class inside a class; write \\[", 1)
        if character != "\\":
            return charset.of(character)
        wanted = self._set()
        return charset.of(self._escaped()) if wanted is None else wanted
