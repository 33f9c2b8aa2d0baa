"""Random lifecycles of stacks with the real engine: what may happen to a project, and what has to hold after each step.

Hypothesis chooses the steps. Each is printed as it comes, with what came of it: that is the reproducer, together with
the seed. `state.…` lines of a failure can be given to `python -m tests.lifecycle --replay FILE`.
"""

import json
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import psutil
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.lifecycle import keys
from tests.lifecycle.world import HOST, Outcome, Running, World
from tests.limits import wait_for

P = ParamSpec("P")
SHOWN_LINES = 14
"""Of what a command said that failed."""
WAYS = st.sampled_from(["pulumi", "make"])
DELAYS = st.integers(0, 70).map(lambda tenths: tenths / 10)
"""Seconds: an update of three runs takes four to six on a machine with nothing else to do."""
DAMAGES = st.sampled_from(["deleted", "cut off", "a file", "read-only"])
SIGNALS = st.sampled_from(["SIGINT", "SIGTERM", "SIGKILL"])
NO_SENTENCE = re.compile(
    r"Traceback \(most recent|^panic:|^goroutine |unhandled exception|Unhandled|\b[A-Z]\w*Error\b.*\bline \d+|Fatal Python",
    re.M,
)
"""What nobody is to read who only uses the project."""
ERROR = re.compile(r"^\s*(?:error: |make: \*\*\* )|\b(?:error|refused|failed|Stopped|can't|cannot)\b", re.M)
LOCKED = re.compile("currently locked|another pulumi works on it")
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


def logged(step: Callable[Concatenate["Lifecycle", P], None]) -> Callable[Concatenate["Lifecycle", P], None]:
    """Print a step before it begins, as a line that can be run again."""

    @wraps(step)
    def wrapper(state: "Lifecycle", *args: P.args, **kwargs: P.kwargs) -> None:
        words = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
        state.number += 1
        print(f"state.{step.__name__}({words})", file=sys.stderr, flush=True)
        began = time.monotonic()
        step(state, *args, **kwargs)
        print(f"    # step {state.number}, {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)

    return wrapper


class Lifecycle(RuleBasedStateMachine):
    """One project from its first `stack init` on."""

    cli = Path("pulumi")
    number = 0
    """Steps so far."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.stacks: dict[str, Stack] = {}
        self.current = ""
        self.names = 0
        self.blocked: dict[str, str] = {}
        """Folders of the project that are damaged now, and how."""
        self.was_full = False
        """Whether the disk was full: then only make can bring back the state."""
        self.judged = 0
        """Lines of the ledger that were looked at."""

    @property
    def stack(self) -> Stack:
        """The one that is selected."""
        return self.stacks[self.current]

    @property
    def here(self) -> World:
        """The project; there is one from `begin` on."""
        assert self.world is not None
        return self.world

    # The first step.

    @initialize(number=st.integers(0, 2**16))
    def begin(self, number: int) -> None:
        """Make the project. Hypothesis tries what is simplest first, which here is one rule forty times: not that."""
        assume(number)
        self.make_world()

    def make_world(self) -> None:
        """Make the project and its first stack."""
        print("# a new project", file=sys.stderr, flush=True)
        self.world = World(self.cli)
        self.new_stack("init")

    def new_stack(self, *words: str) -> None:
        """Make a stack and select it."""
        self.names += 1
        self.current = f"s{self.names}"
        self.stacks[self.current] = Stack()
        self.good("pulumi", "stack", words[0], self.current, *words[1:])
        if len(words) == 1:
            self.stack.settings = dict(keys.FIRST)
            self.configure()

    def configure(self) -> None:
        """Write all settings."""
        words = [word for key, value in self.stack.settings.items() for word in ("--plaintext", f"{key}={value}")]
        self.good("pulumi", "config", "set-all", *words)

    def good(self, *words: str) -> Outcome:
        """Run a command that has to succeed."""
        outcome = self.here.run(*words)
        self.judge_text(outcome)
        assert outcome.code == 0, f"{words}: {outcome.text}"
        return outcome

    # Settings and code.

    @rule(pair=st.sampled_from(keys.RIGHT))
    @logged
    def set_right(self, pair: tuple[str, str]) -> None:
        """Set a key to what is allowed."""
        self.stack.settings[pair[0]] = pair[1]
        self.good("pulumi", "config", "set", "--plaintext", *pair)

    @rule(pair=st.sampled_from(keys.WRONG), way=WAYS)
    @logged
    def set_wrong(self, pair: tuple[str, str], way: str) -> None:
        """Set a key to what is not; `up` refuses it and says which; then it is set right."""
        before = dict(self.stack.settings)
        self.stack.settings[pair[0]] = pair[1]
        self.good("pulumi", "config", "set", "--plaintext", *pair)
        self.judge_up(self.up_of(way), way)
        self.stack.settings = before
        if pair[0] in before:
            self.good("pulumi", "config", "set", "--plaintext", pair[0], before[pair[0]])
        else:
            self.good("pulumi", "config", "rm", pair[0])

    @rule(which=st.integers(0, 11))
    @logged
    def unset(self, which: int) -> None:
        """Remove a key, if one is set."""
        if removable := sorted(self.stack.settings.keys() - keys.FIRST.keys()):
            key = removable[which % len(removable)]
            del self.stack.settings[key]
            self.good("pulumi", "config", "rm", key)

    @rule()
    @logged
    def change_code(self) -> None:
        """Change a line of the arms."""
        self.here.change_code()

    # Commands that end by themselves.

    def words_of(self, verb: str, way: str) -> tuple[str, ...]:
        """The command line."""
        if way == "make":
            return "make", "BOOTSTRAP=true", f"STACK={self.current}", verb
        return "pulumi", verb, *(("--yes", "--skip-preview") if verb != "preview" else ()), "--non-interactive"

    def up_of(self, way: str) -> Outcome:
        """`up`, to its end."""
        return self.here.run(*self.words_of("up", way))

    @rule(way=WAYS)
    @logged
    def up(self, way: str) -> None:
        """Measure."""
        self.judge_up(self.up_of(way), way)

    @rule(way=WAYS)
    @logged
    def preview(self, way: str) -> None:
        """Look ahead; nothing is run."""
        before = len(self.here.ledger())
        outcome = self.here.run(*self.words_of("preview", way))
        self.judge_text(outcome)
        assert len(self.here.ledger()) == before
        if not self.stack.is_unsure:
            assert outcome.code == 0, outcome.text

    @rule()
    @logged
    def refresh(self) -> None:
        """Ask what there is; nothing is run, and nothing goes."""
        if self.stack.is_unsure:
            return
        before, ran = self.ids(), len(self.here.ledger())
        self.good(*self.words_of("refresh", "pulumi"))
        assert (self.ids(), len(self.here.ledger())) == (before, ran)

    @rule(way=WAYS)
    @logged
    def destroy(self, way: str) -> None:
        """Delete what the stack holds; its runs and results stay."""
        kept = self.files()
        if way == "pulumi" and self.stack.is_unsure:
            self.clear()
        self.good(*self.words_of("destroy", way))
        self.stack.measured, self.stack.is_unsure = None, False
        assert self.ids() == {}
        assert self.files() == kept

    def ids(self) -> dict[str, str]:
        """The folder of each run that the state has."""
        resources = self.state().get("resources") or []
        return {each["urn"].rpartition("::")[2]: each["id"] for each in resources if "training:Run::" in each["urn"]}

    def files(self) -> set[str]:
        """What is in runs/ and results/."""
        return {str(path) for name in ("runs", "results") for path in (self.here.folder / name).rglob("*")}

    def state(self) -> dict[str, Any]:
        """The deployment; after a full disk as make brings it back."""
        words = ("pulumi", "stack", "export", "--stack", self.current)
        if self.was_full and self.here.run(*words).code:
            self.judge_text(self.here.run(*self.words_of("outputs", "make")))
        self.was_full = False
        deployment: dict[str, Any] = self.here.json(*words)["deployment"]
        return deployment

    # Stacks.

    @rule()
    @logged
    def rename(self) -> None:
        """Give the stack another name: nothing is measured again for it."""
        if self.stack.is_unsure:
            return
        self.names += 1
        before, self.current = self.current, f"s{self.names}"
        self.good("pulumi", "stack", "rename", self.current)
        self.stacks[self.current] = self.stacks.pop(before)

    @precondition(lambda self: len(self.stacks) < 3)
    @rule()
    @logged
    def copy(self) -> None:
        """Make a stack with the same settings, and select it."""
        settings, before = dict(self.stack.settings), self.current
        self.new_stack("init", "--copy-config-from", before)
        self.stack.settings = settings

    @precondition(lambda self: len(self.stacks) > 1)
    @rule(which=st.integers(0, 2))
    @logged
    def select(self, which: int) -> None:
        """Go on with another."""
        others = sorted(self.stacks.keys() - {self.current})
        self.current = others[which % len(others)]
        self.good("pulumi", "stack", "select", self.current)

    # What surrounds them.

    @rule(seconds=st.sampled_from([-400 * 86_400, -86_400, -60, 0, 3600, 400 * 86_400]))
    @logged
    def jump(self, seconds: int) -> None:
        """Let the clock jump."""
        self.here.set_clock(seconds)

    @rule(name=st.sampled_from(["runs", "results"]), how=DAMAGES, way=WAYS)
    @logged
    def damage(self, name: str, how: str, way: str) -> None:
        """Damage a folder, and measure; then repair it, and measure."""
        self.here.damage(name, how)
        self.blocked[name] = how
        outcome = self.up_of(way)
        if outcome.code:
            self.judge_text(outcome)
            self.stack.measured, self.stack.is_unsure = None, True
            assert how in ("a file", "read-only"), outcome.text
        else:
            self.judge_up(outcome, way)
        self.here.repair(name)
        del self.blocked[name]

    @precondition(lambda self: self.world is not None and self.world.has_own_disk)
    @rule(
        left_kib=st.sampled_from([0, 4, 12, 40, 120, 400]), way=WAYS, verb=st.sampled_from(["up", "destroy", "preview"])
    )
    @logged
    def fill_disk(self, left_kib: int, way: str, verb: str) -> None:
        """Let the disk be full meanwhile; then make room."""
        self.here.fill(left_kib * 1024)
        outcome = self.here.run(*self.words_of(verb, way))
        self.was_full = True
        self.here.make_room()
        self.judge_text(outcome)
        if verb != "preview":
            self.stack.measured, self.stack.is_unsure = None, True

    def say(self, outcome: Outcome) -> None:
        """Print what came of a command."""
        lines = [line for line in outcome.text.splitlines() if line.strip()]
        shown = lines[-SHOWN_LINES:] if outcome.code else lines[-1:]
        print(f"    # {' '.join(outcome.words)}: {outcome.code}", file=sys.stderr)
        print("".join(f"    #   | {line[:300]}\n" for line in shown), end="", file=sys.stderr, flush=True)

    # What happens while an update goes on.

    def meanwhile(self, way: str, delay: float, happen: Callable[[Running], None]) -> Outcome:
        """Let it happen so long after `up` has begun; wait for the end of all."""
        running = self.here.start(*self.words_of("up", way))
        with suppress(psutil.TimeoutExpired):
            psutil.Process(running.process.pid).wait(delay)
        happen(running)
        outcome = running.end()
        self.wait_for_the_end()
        self.judge_text(outcome)
        self.stack.measured, self.stack.is_unsure = None, True
        return outcome

    def wait_for_the_end(self) -> None:
        """Until nothing lives of any command; a language host of a killed engine is ended, as it would end by itself."""
        wait_for(lambda: not self.left(), "processes that were left have ended")
        for process in self.here.processes():
            with suppress(psutil.Error):
                process.kill()
        wait_for(lambda: not self.here.processes(), "the language host is gone")

    def left(self) -> list[str]:
        """Command lines of what lives, without a language host."""
        return [text for each in self.here.processes() if (text := self.here.command_of(each)) and HOST not in text]

    @rule(way=WAYS, delay=DELAYS, signals=st.lists(SIGNALS, min_size=1, max_size=2), which=st.integers(0, 11))
    @logged
    def kill(self, way: str, delay: float, signals: list[str], which: int) -> None:
        """Send signals to one process of an update."""

        def happen(_: Running) -> None:
            if processes := self.here.processes():
                victim = processes[which % len(processes)]
                print(f"    # to: {self.here.command_of(victim)[:150]}", file=sys.stderr, flush=True)
                for name in signals:
                    with suppress(psutil.Error):
                        victim.send_signal(signal.Signals[name])
                        victim.wait(len(signals) - 1)

        self.meanwhile(way, delay, happen)

    @rule(way=WAYS, delay=DELAYS)
    @logged
    def cancel(self, way: str, delay: float) -> None:
        """`pulumi cancel` beside it."""
        self.meanwhile(way, delay, lambda _: self.judge_text(self.here.run("pulumi", "cancel", "--yes")))

    @rule(way=WAYS, delay=DELAYS, seconds=st.sampled_from([-86_400, 0, 86_400]))
    @logged
    def jump_meanwhile(self, way: str, delay: float, seconds: int) -> None:
        """Let the clock jump beside it, which changes nothing of it."""
        outcome = self.meanwhile(way, delay, lambda _: self.here.set_clock(seconds))
        assert outcome.code == 0, outcome.text
        self.judge_up(outcome, way)

    @rule(way=WAYS, delay=DELAYS, name=st.sampled_from(["runs", "results"]))
    @logged
    def lose_folder_meanwhile(self, way: str, delay: float, name: str) -> None:
        """Delete a folder beside it."""
        self.meanwhile(way, delay, lambda _: self.here.damage(name, "deleted"))

    @rule(way=WAYS, other_way=WAYS, delay=DELAYS)
    @logged
    def two_at_once(self, way: str, other_way: str, delay: float) -> None:
        """A second `up` of the same stack beside it: it is refused, or waits; no two runs are at the same time."""
        outcomes = []
        outcome = self.meanwhile(way, delay, lambda _: outcomes.append(self.up_of(other_way)))
        (other,) = outcomes
        self.judge_text(other)
        for each in (outcome, other):
            assert each.code == 0 or LOCKED.search(each.text), each.text
        if outcome.code == 0:
            self.judge_up(outcome, way)

    # What has to hold.

    def judge_text(self, outcome: Outcome) -> None:
        """Whatever somebody reads is meant for somebody who reads; a failure says that it is one."""
        if outcome.code:
            self.say(outcome)
        assert not NO_SENTENCE.search(outcome.text), f"{outcome.words}: {outcome.text}"
        assert outcome.code == 0 or ERROR.search(outcome.text), f"{outcome.words}: {outcome.code} {outcome.text}"

    def clear(self) -> None:
        """The two commands of docs/plain-pulumi.md."""
        self.state()
        for words in CLEAR:
            self.judge_text(self.here.run(*words))

    def judge_up(self, outcome: Outcome, way: str) -> None:
        """It ends with the comparison of exactly the present settings, or with one clear error."""
        self.judge_text(outcome)
        if wrong := keys.wrong(self.stack.settings):
            assert outcome.code != 0, outcome.text
            known = self.stack.is_unsure and KILLED.search(outcome.text)
            assert known or all(key in outcome.text for key in wrong), outcome.text
            return
        if outcome.code and way == "pulumi" and self.stack.is_unsure:
            self.clear()
            outcome = self.up_of(way)
        assert outcome.code == 0, outcome.text
        self.judge_comparison()
        self.stack.measured, self.stack.is_unsure = (dict(self.stack.settings), self.here.code), False

    def judge_comparison(self) -> None:
        """Its settings, arms and repeats, and of each run what was noted while it ran."""
        settings = self.stack.settings
        outputs = self.here.json("pulumi", "stack", "output", "--json", "--stack", self.current)
        compared = json.loads(outputs["comparison"])
        expected = keys.recipe(settings)
        assert {} == keys.differences(expected, compared["recipe"])
        assert keys.arms(settings) == compared["arms"].keys()
        ended = {line["folder"]: line for line in self.here.ledger() if line["event"] == "ended"}
        links = [(arm, link) for arm, summary in compared["arms"].items() for link in summary["runs"]]
        folders = [Path(link["path"]).parent.name for _, link in links]
        assert len(folders) == len(set(folders)) == len(compared["arms"]) * int(settings["repeats"]), links
        for (arm, link), folder in zip(links, folders, strict=True):
            assert folder in ended, f"{folder} never ended"
            ran = ended[folder]
            of_this = expected | {"seed": expected["seed"] + link["repeat"] - 1}
            ignored = ["workers"] if arm == "baseline" else []  # a kept one is of another measurement
            assert {} == keys.differences(of_this, ran["recipe"], *ignored), folder
            assert (arm, self.here.code) == (ran["arm"], ran["code"]), folder
        if self.stack.measured == (settings, self.here.code):
            assert not self.ran_since_last(), "the same was measured again"

    def ran_since_last(self) -> list[dict[str, Any]]:
        """What was noted since the last look."""
        return self.here.ledger()[self.judged :]

    @invariant()
    def look(self) -> None:
        """After each step."""
        if self.world is None:
            return
        try:
            self.wait_for_the_end()
            assert [] == self.here.touched()
            self.state()
            for stack in self.stacks.values():
                assert stack.is_unsure or not self.here.locks() or any(each.is_unsure for each in self.stacks.values())
            self.judge_overlaps()
            self.judged = len(self.here.ledger())
        except AssertionError:
            print(f"    # after step {self.number} that does not hold:", file=sys.stderr, flush=True)
            raise

    def judge_overlaps(self) -> None:
        """No run begins between another's beginning and its end."""
        lines = sorted(self.here.ledger(), key=lambda line: line["at"])
        began: dict[str, int] = {line["folder"]: at for at, line in enumerate(lines) if line["event"] == "began"}
        for at, line in enumerate(lines):
            if line["event"] == "ended":
                assert began[line["folder"]] == at - 1, f"{line['folder']} was not alone"

    def teardown(self) -> None:
        """Remove the project."""
        if self.world is not None:
            self.world.close()
