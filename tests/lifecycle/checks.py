"""What is known of a project's stacks, and what has to hold after each step. Runs no step itself."""

import json
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.lifecycle import keys
from tests.lifecycle.world import HOST, Outcome, World
from tests.limits import LEFT_SECONDS, wait_for

ENGINE = "pulumi up"
SHOWN_LINES = 14
"""Of what a command said that failed."""
NO_SENTENCE = re.compile(
    r"Traceback \(most recent|^panic:|^goroutine |unhandled exception|Fatal Python|^\s*File \"[^\"]+\", line \d+", re.M
)
"""What nobody is to read who only uses the project."""
OF_LOG = re.compile(r"^.*\s\| .*$", re.M)
"""A line of a run's log, which says whatever a run says."""
INTERRUPTED = re.compile(r"Traceback \(most recent(?:.*\n)*?.*\bKeyboardInterrupt$", re.M)
OURS = tuple(f"/p/{name}" for name in ("__main__.py", "compare/", "infra/", "report/", "cli/", "training/"))
"""In the paths of the project's own modules: Pulumi's are interrupted while they import each other, and say so."""
ERROR = re.compile(
    r"^\s*(?:error: |report: |NO )|\berror: |\b(?:refused|failed|Stopped|can't|cannot|goes on|[Kk]illed|Terminated)\b",
    re.M,
)
KILLED = re.compile("currently locked|pending operations|pending creates|interrupted")
"""After a kill plain Pulumi may say one of these; docs/plain-pulumi.md has the two commands that go on."""
CLEAR = (
    ("pulumi", "cancel", "--yes"),
    ("pulumi", "refresh", "--yes", "--non-interactive", "--clear-pending-creates"),
)


@dataclass
class Stack:
    """What is known of a stack."""

    settings: dict[str, str] = field(default_factory=dict)
    measured: tuple[dict[str, str], int] | None = None
    """The settings and the code of its whole measurement; None where there is none, or it is not known to be whole."""
    is_unsure: bool = False
    """Whether something ended an update: a lock, or operations that began, may be left."""

    has_comparison: bool = False
    """Whether the last whole one is still to be among its outputs."""

    def interrupted(self) -> None:
        """Know nothing any more of what it holds."""
        self.measured, self.is_unsure = None, True


def same(expected: object, found: object, what: object = "") -> None:
    """Raise AssertionError with both where they differ: pytest, which would tell them, need not be there."""
    assert expected == found, f"{what or 'it'} should be {expected!r}, and is {found!r}"


def say(line: str) -> None:
    """Print a line of the reproducer."""
    print(line, file=sys.stderr, flush=True)


def tell(outcome: Outcome) -> None:
    """Print what came of a command."""
    lines = [line for line in outcome.text.splitlines() if line.strip()][-SHOWN_LINES:]
    say("\n".join([f"    # {' '.join(outcome.words)}: {outcome.code}", *(f"    #   | {line[:300]}" for line in lines)]))


def _ours(traceback: re.Match[str]) -> str:
    return traceback[0] if any(part in traceback[0] for part in OURS) else ""


class Checked:
    """A project and its stacks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stacks: dict[str, Stack] = {}
        self.current = ""
        self.was_full = False
        """Whether the disk was full: then only make can bring back the state."""
        self.longest_seconds = 4.0
        """That an `up` took by itself."""
        self._seen = 0
        """Lines of the ledger at the last look."""

    @property
    def stack(self) -> Stack:
        """The one that is selected."""
        return self.stacks[self.current]

    def words_of(self, verb: str, way: str) -> tuple[str, ...]:
        """The command line of a user's verb."""
        if way == "rwi":
            return "./rwi", *verb.split(), "--stack", self.current
        at_once = ("--yes", "--skip-preview") if verb != "preview" else ()
        return "pulumi", verb, *at_once, "--non-interactive", "--suppress-outputs"

    def up(self, way: str) -> Outcome:
        """`up`, to its end."""
        began = time.monotonic()
        outcome = self.world.run(*self.words_of("up", way))
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
        return outcome

    def good(self, *words: str) -> Outcome:
        """Run a command that has to succeed."""
        outcome = self.world.run(*words)
        self.judge_text(outcome)
        assert outcome.code == 0, outcome.text
        return outcome

    # What the state holds.

    def state(self) -> dict[str, Any]:
        """The deployment; after a full disk as `rwi` brings it back."""
        words = ("pulumi", "stack", "export", "--stack", self.current)
        if self.was_full and self.world.run(*words).code:
            self.judge_text(self.world.run(*self.words_of("outputs", "rwi")))
        self.was_full = False
        deployment: dict[str, Any] = self.world.json(*words)["deployment"]
        return deployment

    def ids(self) -> dict[str, str]:
        """The folder of each run that the state has."""
        resources = self.state().get("resources") or []
        return {each["urn"].rpartition("::")[2]: each["id"] for each in resources if "training:Run::" in each["urn"]}

    def comparison(self) -> dict[str, Any]:
        """The output of that name; empty where there is none."""
        outputs = self.world.json("pulumi", "stack", "output", "--json", "--show-secrets", "--stack", self.current)
        return dict(json.loads(outputs.get("comparison", "{}")))

    def files(self) -> set[str]:
        """What is in runs/ and results/."""
        return {str(path) for name in ("runs", "results") for path in (self.world.folder / name).rglob("*")}

    # What has to hold.

    def judge_text(self, outcome: Outcome) -> None:
        """Whatever somebody reads is meant for somebody who reads; a failure says that it is one.

        A command that was killed itself says nothing more.
        """
        if outcome.code:
            tell(outcome)
        read = INTERRUPTED.sub(_ours, OF_LOG.sub("", outcome.text))
        assert not NO_SENTENCE.search(read), outcome.text
        assert outcome.code <= 0 or ERROR.search(outcome.text), f"{outcome.words}: {outcome.code} {outcome.text}"

    def judge_up(self, outcome: Outcome, way: str) -> None:
        """It ends with the comparison of exactly the present settings, or with one clear error."""
        self.judge_text(outcome)
        if wrong := keys.wrong(self.stack.settings):
            self._judge_refusal(outcome, wrong)
            return
        if outcome.code and way == "pulumi" and self.stack.is_unsure:
            self.clear()
            outcome = self.up(way)
            self.judge_text(outcome)
        assert outcome.code == 0, outcome.text
        self._judge_comparison()
        if way == "rwi":
            latest = self.world.folder / "results" / self.current / "latest/comparison.json"
            same(self.comparison(), json.loads(latest.read_text()), "the latest result")
        self.stack.measured, self.stack.is_unsure = (dict(self.stack.settings), self.world.code), False
        self.stack.has_comparison = True

    def clear(self) -> None:
        """The two commands of docs/plain-pulumi.md."""
        self.state()
        for words in CLEAR:
            self.judge_text(self.world.run(*words))

    def _judge_refusal(self, outcome: Outcome, wrong: set[str]) -> None:
        """Every wrong key is named, nothing has run, and the outputs are those of the last measurement."""
        assert outcome.code != 0, outcome.text
        assert not self.new_lines(), "ran with wrong settings"
        known = self.stack.is_unsure and KILLED.search(outcome.text)
        assert known or all(key in outcome.text for key in wrong), outcome.text
        if self.stack.measured:
            same({}, keys.differences(keys.recipe(self.stack.measured[0]), self.comparison()["recipe"]))

    def _judge_comparison(self) -> None:
        """Its settings, arms and repeats, and of each run what was noted while it ran."""
        settings, compared = self.stack.settings, self.comparison()
        expected = keys.recipe(settings)
        same({}, keys.differences(expected, compared["recipe"]))
        same(keys.explicit(settings), compared["settings"])
        same(keys.arms(settings), set(compared["arms"]))
        links = [(arm, link) for arm, summary in compared["arms"].items() for link in summary["runs"]]
        folders = [Path(link["path"]).parent.name for _, link in links]
        same(len(compared["arms"]) * int(settings["repeats"]), len(set(folders)), folders)
        same(len(folders), len(set(folders)), folders)
        ended = {line["folder"]: line for line in self.world.ledger() if line["event"] == "ended"}
        for (arm, link), folder in zip(links, folders, strict=True):
            assert folder in ended, f"{folder} never ended"
            ran = ended[folder]
            of_this = expected | {"seed": expected["seed"] + link["repeat"] - 1}
            ignored = ["workers"] if arm == "baseline" else []  # a kept one is of another measurement
            same({}, keys.differences(of_this, ran["recipe"], *ignored), folder)
            same((arm, self.world.code), (ran["arm"], ran["code"]), folder)
        if self.stack.measured == (settings, self.world.code):
            assert not self.new_lines(), "the same was measured again"

    def new_lines(self) -> list[dict[str, Any]]:
        """What the arms have noted since the last look."""
        return self.world.ledger()[self._seen :]

    def look(self) -> None:
        """After each step."""
        self.wait_for_the_end()
        same([], self.world.touched(), "what of others was touched")
        resources = self.state().get("resources") or []
        if self.stack.has_comparison:
            (root,) = (each for each in resources if each["type"] == "pulumi:pulumi:Stack")
            same(True, "comparison" in root.get("outputs", {}), "whether the last comparison is among the outputs")
        if not any(stack.is_unsure for stack in self.stacks.values()):
            same([], self.world.locks(), "locks")
        self._judge_overlaps()
        self._seen = len(self.world.ledger())

    def wait_for_the_end(self) -> None:
        """Wait until nothing lives of any command: as long as an engine works, and no longer than it takes to end.

        The language host of a killed engine takes minutes: it is ended here.
        """
        wait_for(lambda: not self._living(ENGINE), "no engine works any more")
        psutil.wait_procs(self._living("", but=HOST), timeout=LEFT_SECONDS)
        same([], [self.world.command_of(each) for each in self._living("", but=HOST)], "what is left running")
        for process in self._living(HOST):
            process.kill()
        wait_for(lambda: not self.world.processes(), "the language host is gone")

    def _living(self, part: str, but: str | None = None) -> list[psutil.Process]:
        """Processes with that in their command line, and without that."""
        commands = [(each, self.world.command_of(each)) for each in self.world.processes()]
        return [each for each, command in commands if command and part in command and not (but and but in command)]

    def _judge_overlaps(self) -> None:
        """No run begins between another's beginning and its end."""
        lines = sorted(self.world.ledger(), key=lambda line: line["at"])
        began: dict[str, int] = {line["folder"]: at for at, line in enumerate(lines) if line["event"] == "began"}
        for at, line in enumerate(lines):
            if line["event"] == "ended":
                assert began[line["folder"]] == at - 1, f"{line['folder']} was not alone"
