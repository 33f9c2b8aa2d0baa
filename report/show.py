"""Shows results that are kept: a list of them, two side by side, the page of one. Measures nothing."""

import webbrowser
from collections.abc import Sequence

from report import terminal
from report.commands import publish_again
from report.errors import ShowError
from report.stored import PAGE, choose, stored_results
from training.contract.provenance import PROJECT


def history(stack: str, wanted: Sequence[str]) -> int:
    """Print the results of a stack, or two of them side by side."""
    from report import history as lists

    terminal.write(lists.compare(PROJECT, stack, *wanted) if wanted else lists.history(PROJECT, stack))
    return 0


def open_page(stack: str, wanted: str, *, path_only: bool) -> int:
    """Open the page of a result in the browser; print its path where there is none. Raises ShowError."""
    result = choose(stored_results(PROJECT, stack)[0], wanted, stack)
    path = result.folder / PAGE
    if not path.is_file():
        again = publish_again(result.folder, stack)
        raise ShowError(f"{path} is missing: remove {result.folder} and publish again with `{again}`")
    if path_only or not webbrowser.open(path.resolve().as_uri()):
        terminal.write(str(path))
    return 0
