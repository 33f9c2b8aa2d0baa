"""The commands of the documents work: pasted one after another into a shell, in a copy of the project.

What is not run has its reason in the fence's info string, or is of a kind that `NOT_RUN` names.
"""

import re
import subprocess
from itertools import pairwise

import pytest

from tests.docs import markdown, session
from tests.docs.markdown import Block, Command, Place
from tests.program.engine import Project
from tests.slow import slow_but

NOT_RUN = {
    r"\./rwi test\b": "it would start itself",
    r"\./rwi check\b": "it looks at the project itself, not at a copy, and is run on its own",
    r"\./rwi (doctor|jobs|status)\b": "it looks at this machine or at a cluster",
    r"\./rwi (bench|report tensorboard)\b": "it trains for minutes, or shows something until Ctrl-C",
    r"\./rwi .*--stack (minikube|kubernetes|ci)\b": "a cluster's stack; tests/cluster brings one up",
    r"(kubectl|minikube|docker|(\.venv/bin/)?ray|curl) ": "it needs a cluster, or a run that goes on meanwhile",
    r"git clone ": "there is no network",
    r"(\.venv/bin/)?python -m training\.": "it trains; the arms of the copy are stand-ins",
}
"""Commands that no document can have run here, and why."""

RUN_ELSEWHERE = "no-run tests/program/test_plain_pulumi.py runs it"
"""Of a block that needs a backend, or a language host, which the shell here has not."""
RUN_THERE = "no-run docs/plain-pulumi.md is run instead"
"""Of a block whose commands stand in that one, too."""

DOCUMENTS = [name for name in markdown.documents() if markdown.commands(name, markdown.read(name))]
QUICK = {*DOCUMENTS} - {f"docs/{name}.md" for name in ("exercise", "getting-started", "settings", "own-script")}
"""Whose commands take no minute."""


def is_run(command: Command) -> bool:
    """Whether a command is run here."""
    return not command.info.startswith("no-run") and not any(re.match(kind, command.text) for kind in NOT_RUN)


def runnable(document: str) -> list[Command]:
    """The commands of a document that are run."""
    return [its for its in markdown.commands(document, markdown.read(document)) if is_run(its)]


@pytest.mark.parametrize("document", slow_but(QUICK, filter(runnable, DOCUMENTS)))
def test_the_commands_of_a_document_work(document: str, project: Project) -> None:
    """In their order, in one shell, from a fresh checkout."""
    ended = session.run(project, runnable(document))

    assert 0 == ended.status, f"{ended.place} failed:\n{ended.output}"


def test_most_commands_are_run() -> None:
    """So that the list above does not grow until nothing is."""
    found = [its for name in DOCUMENTS for its in markdown.commands(name, markdown.read(name))]
    local = [
        its
        for its in found
        if not re.match(r"\./rwi .*--stack (minikube|kubernetes|ci)\b|kubectl |minikube ", its.text)
    ]

    assert len(local) < 2 * len([its for its in local if is_run(its) or its.info in (RUN_ELSEWHERE, RUN_THERE)])


def test_a_command_that_fails_is_named(project: Project) -> None:
    """And one that works although it was said to fail."""
    here = [Command(Place("x.md", 3), "./rwi --help"), Command(Place("x.md", 4), "make nosuch")]
    works = Command(Place("x.md", 5), "./rwi --help", "fails")

    failed, worked = session.run(project, here), session.run(project, [works])

    assert (failed.status != 0, failed.place) == (True, "x.md:4")
    assert (worked.status != 0, worked.place) == (True, "x.md:5")


def searches() -> list[tuple[Block, Block]]:
    """Blocks of searches in the project's files, each with the block of its output."""
    found = [list(markdown.blocks(name, markdown.read(name))) for name in DOCUMENTS]
    pairs = [pair for blocks in found for pair in pairwise(blocks)]
    return [(asked, shown) for asked, shown in pairs if all(line.startswith("grep ") for line in asked.lines)]


@pytest.mark.parametrize(("asked", "shown"), searches(), ids=lambda block: str(block.place))
def test_what_a_search_shows_is_what_it_finds(asked: Block, shown: Block) -> None:
    """Output that needs no run is compared, so that a change of the code is a change of the document."""
    done = subprocess.run(
        ["bash", "-c", "\n".join(asked.lines)], cwd=markdown.ROOT, capture_output=True, text=True, check=False
    )

    assert list(shown.lines) == done.stdout.splitlines()


def test_there_is_a_search() -> None:
    """Or the test above has nothing to compare."""
    assert searches()
