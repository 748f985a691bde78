"""What a user's code raised, in words.

One job: `said`: class and text of an exception, of bounded length, whatever its own methods do.
"""

from __future__ import annotations

CHARS_MAX = 2000


def said(error: BaseException) -> str:
    """The class and text of `error`.

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
    return f"{kind}: {text}" if text else kind
