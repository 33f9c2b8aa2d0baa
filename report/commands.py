"""How settings are written on a command line that measures again. Pure."""

import shlex
from collections.abc import Mapping


def settings_text(settings: Mapping[str, str]) -> str:
    """The value of `SET`, quoted for the shell: `"workers=3 epochs=5"`."""
    return in_shell(" ".join(f"{key}={shlex.quote(text)}" for key, text in settings.items()))


def in_shell(words: str) -> str:
    """Between the plainest quotes that keep it as it is."""
    return shlex.quote(words) if set(words) & set('"$`\\!') else f'"{words}"'
