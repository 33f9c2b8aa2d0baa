"""Mutants of the product: each breaks one promise, and names the tests that claim to hold it.

A mutant is a table of a TOML file here. Its name says what is broken; `promise` is the sentence that no longer holds,
`find` stands once in the product's Python files, wherever that is and however it is wrapped, `replace` goes there, and
`tests` are files or folders for pytest. So code may move between files without a word here. A mutant that stands
nowhere, or twice, is refused: whoever changes that code adapts it.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PRODUCT = ("__main__.py", "bench", "cli", "compare", "infra", "policy", "report", "training")


class NotAppliedError(ValueError):
    """A mutant that no longer says where it belongs."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One broken promise."""

    name: str
    promise: str
    find: str
    """Of it only what is no white space counts."""
    replace: str
    """Its second line and those after it have their own indent."""
    tests: tuple[str, ...]

    def applied(self, sources: Mapping[str, str]) -> tuple[str, str]:
        """Return the file that it changes, and its new text. Raises NotAppliedError if there is no such file."""
        wanted = _dense(self.find)
        counts = {path: _dense(text).count(wanted) for path, text in sources.items()}
        paths = [path for path, count in counts.items() for _ in range(count)]
        if len(paths) != 1:
            raise NotAppliedError(f"{self.name}: {self.find!r} stands in {', '.join(paths) or 'no file'}, not once")
        text = sources[paths[0]]
        spaced = re.compile(r"\s*".join(map(re.escape, wanted)))
        changed = spaced.sub(lambda _: self.replace, text, count=1)
        try:
            compile(changed, paths[0], "exec")
        except SyntaxError as error:
            raise NotAppliedError(f"{self.name}: {paths[0]} would be no Python: {error}") from None
        return paths[0], changed


def _dense(text: str) -> str:
    return "".join(text.split())


def sources(project: Path = PROJECT) -> dict[str, str]:
    """Return the text of each of the product's Python files, by its path."""
    roots = [project / name for name in PRODUCT]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
    return {file.relative_to(project).as_posix(): file.read_text(encoding="utf-8") for file in files}


def mutants(names: Sequence[str] = ()) -> list[Mutant]:
    """Return all mutants, or those with these names or of these files."""
    read = [
        (file.stem, Mutant(**{**fields, "name": name, "tests": tuple(fields["tests"])}))
        for file in sorted(HERE.glob("*.toml"))
        for name, fields in tomllib.loads(file.read_text(encoding="utf-8")).items()
    ]
    known = {each.name for _, each in read} | {area for area, _ in read}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"no mutant or file is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [each for area, each in read if not names or {area, each.name} & set(names)]
