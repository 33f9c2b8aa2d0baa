"""No test depends on how fast the machine is: it waits for an event that it names, and no time decides."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.test_imports import parsed

TESTS = Path(__file__).resolve().parents[1]
NO_TESTS = ("adversaries", "golden", "planted_train.py", "why_train.py", "work.py", "plain.py", "stub_entry.py")
"""Scripts that tests train with, and programs that they start."""
EXEMPT = {
    "limits.py": "it is what ends all waits",
    "apiserver/control_plane.py": "one look of many at a server that starts",
    "platform/programs.py": "the same",
    "platform/test_ray_autoscaler.py": "Ray must not go before its idle time: no slow machine makes that early",
    "program/test_ray_up.py": "that nothing comes after it takes a time to see; too short a one fails no test",
    "script/test_pods.py": "a rank that comes first has time to wait for the other; the other order passes, too",
    "unit/places/test_programs.py": "what goes on for a minute is ended after a second, and 40 are allowed",
    "unit/training/test_output.py": "the same",
}
"""Files in which a time decides, and why no slow machine makes them fail."""
MOST_SECONDS = 0.2
"""Between two looks at something, no more."""
WAITS = ("wait", "join", "sleep", "wait_for", "wait_until")
CLOCKS = ("monotonic", "perf_counter", "time")


def judged(path: Path) -> Iterator[str]:
    """Each place of a file where a time of its own decides."""
    for node in ast.walk(parsed(path)):
        if (
            _waits(node)
            if isinstance(node, ast.Call)
            else isinstance(node, ast.Assert) and _looks_at_a_clock(node.test)
        ):
            yield f"{path.relative_to(TESTS)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:100]}"


def _waits(call: ast.Call) -> bool:
    times = [word.value for word in call.keywords if word.arg == "timeout"]
    times += [*call.args, *(word.value for word in call.keywords)] if _name(call) in WAITS else []
    numbers = [each.value for each in times if isinstance(each, ast.Constant)]
    return any(isinstance(number, int | float) and number > MOST_SECONDS for number in numbers)


def _looks_at_a_clock(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and _name(each) in CLOCKS for each in ast.walk(test))


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def test_no_time_decides() -> None:
    """Nor does a limit of its own end what hangs: those of tests/limits.py do."""
    files = [path for path in sorted(TESTS.rglob("*.py")) if not {*path.parts} & {*NO_TESTS}]
    found = {path.relative_to(TESTS).as_posix(): [*judged(path)] for path in files}

    assert [] == [place for file, places in found.items() if file not in EXEMPT for place in places]
    assert EXEMPT.keys() == {file for file, places in found.items() if places} & EXEMPT.keys()
