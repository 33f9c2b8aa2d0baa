"""How often somebody who follows an update from its first line to its last output goes back to a file."""

from collections.abc import Callable
from threading import Thread

import pytest

from tests.unit.test_wiring import record
from tests.unit.walk import ROOT, Walk, listed, returns


@pytest.mark.parametrize(
    ("stack", "part", "most"), [("local", "program", 35), ("local", "compare", 41), ("minikube", "program", 106)]
)
def test_an_update_is_read_without_going_back(stack: str, part: str, most: int) -> None:
    """The numbers are to fall: what a reader needs of a file is asked of it at once, and handed on as a value."""
    steps = [(file, function) for file, function in record(stack, "--walk")["walk"][part]]

    assert returns(steps) <= most, f"{returns(steps)} returns:\n{listed(steps)}"


@pytest.mark.parametrize(("is_watch", "followed"), [(True, ["first"]), (False, ["first", "second"])])
def test_what_is_watched_beside_the_program_is_no_step(is_watch: bool, followed: list[str]) -> None:
    """It would come before the program's last step or after it, as fast as the machine is."""
    first, second = function("__main__.py", "first"), function(f"{ROOT}/infra/a.py", "second")
    beside = Thread(target=second, daemon=is_watch)

    def record() -> None:
        first()
        beside.start()
        beside.join()

    walk = Walk()
    with walk.following():
        record()

    assert followed == [name for _, name in walk.steps]


def function(file: str, name: str) -> Callable[[], None]:
    """A function that stands in that file."""
    names: dict[str, Callable[[], None]] = {}
    exec(compile(f"def {name}(): pass", file, "exec"), names)  # noqa: S102 - the text above
    return names[name]
