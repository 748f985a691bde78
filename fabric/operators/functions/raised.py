"""What a user's code raised, in words.

One job: `said`: class and text of an exception, of bounded length, whatever its own methods do, and
the line of the user's own code that it came through last.
"""

from __future__ import annotations

import sysconfig
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from types import FrameType

CHARS_MAX, FRAMES_MAX = 2000, 100
_NOT_THEIRS = (
    str(Path(__file__).parents[2]), *(sysconfig.get_path(at) for at in ("stdlib", "purelib")),
)  # fmt: skip


def said(error: BaseException) -> str:
    """The class and text of `error`, and its place where that is known.

    >>> said(ValueError("no")), said(KeyboardInterrupt())
    ('ValueError: no', 'KeyboardInterrupt')
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException as another:  # its `__str__` is the user's, too
        text = f"(its text can't be made: {type(another).__name__})"
    if len(text) > CHARS_MAX:
        text = f"{text[:CHARS_MAX]}… ({len(text)} characters)"
    return (f"{kind}: {text}" if text else kind) + _place(error)


def _place(error: BaseException) -> str:
    frames = islice(walk_tb(error.__traceback__), FRAMES_MAX)  # one raised again and again has many
    theirs = [(frame, line) for frame, line in frames if _is_theirs(frame)]
    if not theirs:
        return ""
    frame, line = theirs[-1]
    return f" (line {line} of {Path(frame.f_code.co_filename).name})"


def _is_theirs(frame: FrameType) -> bool:
    """Compiled modules name files by where they were built, notebooks and shells in brackets."""
    name = frame.f_code.co_filename
    return name.startswith(("/", "<")) and not name.startswith(("<frozen", *_NOT_THEIRS))
