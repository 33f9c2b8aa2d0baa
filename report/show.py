"""`make report`: opens the page of a result of a stack. Nothing is measured or published here."""

import webbrowser
from pathlib import Path

from report.errors import ShowError
from report.stored import PAGE, choose, stored_results


def page(project: Path, stack: str, wanted: str) -> Path:
    """The HTML report of a result; ShowError where it has none."""
    result = choose(stored_results(project, stack)[0], wanted, stack)
    path = result.folder / PAGE
    if not path.is_file():
        raise ShowError(f"{path} is missing: remove {result.folder} and publish again with `STACK={stack} make report`")
    return path


def open_page(path: Path) -> bool:
    """Open a page in a browser; return whether one could be started."""
    return webbrowser.open(path.resolve().as_uri())
