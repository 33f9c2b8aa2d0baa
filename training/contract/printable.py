"""Makes text of scripts, jobs and other users safe to print in a terminal.

A terminal obeys sequences of control characters: they write its clipboard and its title, clear what stands there, or
answer as if the user had typed. `cli.setup.project` has the same for what runs before there is an environment.
"""

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_LINE_END = re.compile(r"\r\n?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, and characters that change the direction of the text around them."""


def printable(text: str) -> str:
    """Return the text without colours, with a newline for each carriage return, and with a replacement character for
    every other character that a terminal would obey."""
    return _CONTROL.sub("\ufffd", _LINE_END.sub("\n", _COLOUR.sub("", text)))
