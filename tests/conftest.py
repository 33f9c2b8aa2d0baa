"""The golden files of wording; and which tests may run beside which, for `pytest -n 4`.

A group stays in one process and in its order. What trains for real is two groups, searches and the rest: more at a time
would wait for two cores. They come first, because they are the longest; unit tests are the shortest and come last, to
fill what is left, those first of which a group has many seconds.
Groups are told by where a test is: pytest-xdist's own mark adds them to names, and pytest shows names without them.
One after another tests need no groups.

`--without-slow` skips the tests that are marked `slow`. `./rwi test` sets it. The last lines say what was skipped, and
what brings it.
CI's time is limited: with `--begin-until`, a Unix time, unit tests all run, and come before what does not train. Other
files come in random order, so that each has its day, and slow tests last. What would begin later is skipped, and
`cli.tiers` names its files.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden import FLAG, Golden, Wording
from tests.leftovers import Leftovers
from tests.skipped import BEGIN_UNTIL, LATE, LEFT_OUT, lines
from tests.surroundings import make_plain

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.loadscope import LoadScopeScheduling

STARTS_AGAIN = make_plain()
WITHOUT_SLOW = "--without-slow"
UNIT = "tests/unit/"
TRAIN = {"tests/training/": "trains", "tests/script/": "trains", "tests/search/": "searches"}
"""How the names of tests begin that train for real, and their groups."""
BESIDE = (
    *(f"tests/training/test_{name}.py" for name in ("command_line", "dataset", "fairness", "registry", "warm_up")),
    *(f"tests/script/test_{name}.py" for name in ("adversaries", "guard", "kinds", "memory", "pods")),
    *(
        f"tests/script/test_{name}.py"
        for name in ("plain", "plain_keras", "plain_keras_torch", "plain_trees", "unpacked_modules")
    ),
    "tests/search/test_plain.py",
)
"""Of these, files that hold no machine for themselves: what they look at is no time."""
TOGETHER = ("tests/program/test_rwi_stack.py", "tests/program/test_template.py")
"""Files whose tests look at one story, or at what is made once for them."""
SHARE_A_FOLDER = ("apiserver", "platform", "metrics", "image", "cluster", "storage", "tracking")
"""Folders whose tests share what is made for them: servers, images, a cluster. In `unit` it is a file's tests."""


def group_of(name: str) -> str:
    """The group of the test of that name; its own where it may run beside every other."""
    file, *_ = name.split("::")
    _, folder, *inner = file.split("/")
    if name.startswith(tuple(TRAIN)) and file not in BESIDE:
        return TRAIN[f"tests/{folder}/"]
    if folder in SHARE_A_FOLDER or (folder == "unit" and len(inner) == 1):  # there, records of the stacks' programs
        return folder
    return file if folder == "unit" or file in (*BESIDE, *TOGETHER) else name


def _place(item: pytest.Item) -> int:
    if item.nodeid.startswith(tuple(TRAIN)):
        return 0
    if not item.nodeid.startswith(UNIT):
        return 1
    return 2 if group_of(item.nodeid) == "unit" else 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests where that is asked for; in each of several processes, put the tests into that order."""
    if config.getoption(WITHOUT_SLOW):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason=LEFT_OUT))
    if hasattr(config, "workerinput"):
        items.sort(key=_place)
    if until := config.getoption(BEGIN_UNTIL):
        _put_what_may_be_late_last(items, random.Random(until))  # noqa: S311 - the same order in each process


def _put_what_may_be_late_last(items: list[pytest.Item], shuffled: random.Random) -> None:
    days = {file: shuffled.random() for file in sorted({item.nodeid.split("::")[0] for item in items})}

    def key(item: pytest.Item) -> tuple[int, bool, float]:
        if item.nodeid.startswith(UNIT):
            return 1, False, 0
        slow = item.get_closest_marker("slow") is not None
        return 0 if group_of(item.nodeid) in TRAIN.values() else 2, slow, days[item.nodeid.split("::")[0]]

    items.sort(key=key)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin too late."""
    until = item.config.getoption(BEGIN_UNTIL)
    if until and time.time() > until and not item.nodeid.startswith(UNIT):
        pytest.skip(LATE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last what was skipped, and what brings it; `-rs` has every reason."""
    yield
    for line in lines((each.nodeid, each.longrepr[2]) for each in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)


def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """Hand out whole groups."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist is skipped: it ships types of half its modules
        """By group, in the order of their first tests."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag that rewrites the golden files, and those that leave tests out."""
    parser.addoption(FLAG, action="store_true", help="rewrite tests/golden with what the tests that pass print")
    parser.addoption(WITHOUT_SLOW, action="store_true", help="skip the tests that are marked `slow`")
    parser.addoption(BEGIN_UNTIL, type=float, metavar="TIME", help="skip what would begin later, but for unit tests")


def pytest_configure(config: pytest.Config) -> None:
    """Compare, or rewrite, the golden files. What was said to this pytest is not said to those that tests start."""
    if STARTS_AGAIN:
        if capturing := config.pluginmanager.get_plugin("capturemanager"):
            capturing.stop_global_capturing()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - with what `make_plain` has left
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ.pop("PYTEST_ADDOPTS", None)
    config.pluginmanager.register(Golden(config, Path(__file__).with_name("golden")), "golden")
    config.pluginmanager.register(Leftovers(), "leftovers")


@pytest.fixture
def wording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Wording:
    """Compares what a user reads with a golden file, without the paths of this machine."""
    golden = request.config.pluginmanager.get_plugin("golden")
    assert isinstance(golden, Golden)
    base = tmp_path_factory.getbasetemp()
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else base
    names = {folder: "<tmp>", base: "<tmp>", request.config.rootpath: "<project>", Path.home(): "<home>"}
    return Wording(golden, request.node.nodeid, {str(path): name for path, name in names.items()})
