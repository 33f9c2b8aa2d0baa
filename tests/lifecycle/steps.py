"""What may happen to a project, a method each. What has to hold after it is in `checks`."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import psutil
from hypothesis import strategies as st

from tests.lifecycle import keys
from tests.lifecycle.checks import Checked, Stack, same, say
from tests.lifecycle.world import Outcome, Running, World

P = ParamSpec("P")
WAYS = st.sampled_from(["pulumi", "rwi"])
MOMENTS = st.integers(0, 100).map(lambda percent: percent / 100)
"""Parts of the longest `up` so far, after which something happens beside one."""
FOLDERS = st.sampled_from(["runs", "results"])
SHOWS = st.sampled_from(["outputs", "history", "report PRINT=1", "doctor", "status", "diagnose"])
"""Verbs of make that only look."""
PULUMIS_PYTHON = ("pulumi-language-python", "pulumi.dynamic", "pulumi-resource-pulumi-python")
LOCKED = ("currently locked", "another pulumi works on it")
DAY = 86_400


@dataclass(frozen=True)
class Step:
    """A step to take; it prints as the line that takes it."""

    name: str
    arguments: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return f"state.{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments)})"


_ALL: dict[str, st.SearchStrategy[Step]] = {}
_WEIGHTED: list[str] = []


def step(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[..., Any]:
    """Make a method one of the steps. It is printed before it begins, as a line that can be replayed."""

    def decorate(
        method: Callable[Concatenate["Project", P], None],
    ) -> Callable[Concatenate["Project", P], None]:
        name = method.__name__
        _ALL[name] = st.fixed_dictionaries(arguments).map(lambda values: Step(name, tuple(values.items())))
        _WEIGHTED.extend([name] * weight)

        @wraps(method)
        def wrapper(self: "Project", /, *args: P.args, **kwargs: P.kwargs) -> None:
            self.number += 1
            say(f"{Step(name, tuple(kwargs.items()))!r}    # step {self.number}")
            began = time.monotonic()
            method(self, *args, **kwargs)
            say(f"    # {time.monotonic() - began:.1f} s")

        return wrapper

    return decorate


class Project(Checked):
    """A project with its first stack."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.number = 0
        """Steps so far."""
        self._names = 0
        self._new_stack()
        self.stack.settings = dict(keys.FIRST)
        flags = [word for key, value in keys.FIRST.items() for word in ("--plaintext", f"{key}={value}")]
        self.good("pulumi", "config", "set-all", *flags)

    def _new_stack(self, *words: str) -> None:
        self._names += 1
        self.current = f"s{self._names}"
        self.stacks[self.current] = Stack()
        self.good("pulumi", "stack", "init", self.current, *words)

    # Settings and code.

    @step(4, pair=st.sampled_from(keys.RIGHT))
    def set_right(self, pair: tuple[str, str]) -> None:
        """Set a key to what is allowed."""
        self.stack.settings[pair[0]] = pair[1]
        self.good("pulumi", "config", "set", "--plaintext", *pair)

    @step(2, pair=st.sampled_from(keys.WRONG), way=WAYS)
    def set_wrong(self, pair: tuple[str, str], way: str) -> None:
        """Set a key to what is not, and measure; then set it right."""
        key, before = pair[0], self.stack.settings.get(pair[0])
        self.stack.settings[key] = pair[1]
        self.good("pulumi", "config", "set", "--plaintext", *pair)
        self.judge_up(self.up(way), way)
        del self.stack.settings[key]
        if before is None:
            self.good("pulumi", "config", "rm", key)
        else:
            self.stack.settings[key] = before
            self.good("pulumi", "config", "set", "--plaintext", key, before)

    @step(2, which=st.integers(0, 11))
    def unset(self, which: int) -> None:
        """Remove a key, if one is set."""
        if removable := sorted(self.stack.settings.keys() - keys.FIRST.keys()):
            key = removable[which % len(removable)]
            del self.stack.settings[key]
            self.good("pulumi", "config", "rm", key)

    @step(2)
    def change_code(self) -> None:
        """Change a line of the arms."""
        self.world.change_code()

    # Commands that end by themselves.

    @step(8, way=WAYS)
    def measure(self, way: str) -> None:
        """Let `up` end by itself."""
        self.judge_up(self.up(way), way)

    @step(2, way=WAYS)
    def preview(self, way: str) -> None:
        """Look ahead; nothing is run."""
        outcome = self.world.run(*self.words_of("preview", way))
        self.judge_text(outcome)
        same([], self.new_lines(), "what has run")
        if not self.stack.is_unsure:
            assert outcome.code == 0, outcome.text

    @step(3, verb=SHOWS)
    def show(self, verb: str) -> None:
        """Look with make, whatever there is; nothing is run."""
        self.judge_text(self.world.run(*self.words_of(verb, "rwi")))
        same([], self.new_lines(), "what has run")

    @step(2)
    def refresh(self) -> None:
        """Ask what there is; nothing is run, and nothing goes."""
        if self.stack.is_unsure:
            self.clear()
        before = self.ids()
        self.good(*self.words_of("refresh", "pulumi"))
        same(before, self.ids())
        same([], self.new_lines(), "what has run")

    @step(2, way=WAYS)
    def destroy(self, way: str) -> None:
        """Delete what the stack holds; its runs and results stay."""
        kept = self.files()
        if way == "pulumi" and self.stack.is_unsure:
            self.clear()
        self.good(*self.words_of("destroy", way))
        self.stack.measured, self.stack.is_unsure, self.stack.has_comparison = None, False, False
        same({}, self.ids())
        same(kept, self.files())

    # Stacks.

    @step(2)
    def rename(self) -> None:
        """Give the stack another name: nothing is measured again for it."""
        if self.stack.is_unsure:
            self.clear()
        self._names += 1
        before, self.current = self.current, f"s{self._names}"
        self.good("pulumi", "stack", "rename", self.current, "--stack", before)
        self.stacks[self.current] = self.stacks.pop(before)

    @step(2)
    def copy(self) -> None:
        """Make a stack with the same settings, and select it."""
        settings, before = dict(self.stack.settings), self.current
        self._new_stack("--copy-config-from", before)
        self.stack.settings = settings

    @step(2, which=st.integers(0, 2))
    def select(self, which: int) -> None:
        """Go on with another."""
        if others := sorted(self.stacks.keys() - {self.current}):
            self.current = others[which % len(others)]
            self.good("pulumi", "stack", "select", self.current)

    # What surrounds them.

    @step(1, seconds=st.sampled_from([-400 * DAY, -DAY, -60, 0, 3600, 400 * DAY]))
    def jump(self, seconds: int) -> None:
        """Let the clock jump."""
        self.world.set_clock(seconds)

    @step(4, name=FOLDERS, how=st.sampled_from(["deleted", "cut off", "a file", "read-only"]), way=WAYS, verb=SHOWS)
    def damage(self, name: str, how: str, way: str, verb: str) -> None:
        """Damage a folder, measure and look; then repair it."""
        self.world.damage(name, how)
        outcome = self.up(way)
        self.judge_text(self.world.run(*self.words_of(verb, "rwi")))
        self.world.repair(name)
        if outcome.code and how in ("a file", "read-only"):
            self.judge_text(outcome)
            assert name in outcome.text, outcome.text
            self.stack.interrupted()
        else:
            self.judge_up(outcome, way)

    @step(
        4, left_kib=st.sampled_from([0, 4, 12, 40, 120, 400]), way=WAYS, verb=st.sampled_from(["up", "up", "destroy"])
    )
    def fill_disk(self, left_kib: int, way: str, verb: str) -> None:
        """Let the disk be full meanwhile; then make room."""
        if not self.world.has_own_disk:
            return
        self.world.fill(left_kib * 1024)
        outcome = self.world.run(*self.words_of(verb, way))
        self.was_full = True
        self.world.make_room()
        self.stack.interrupted()
        self.stack.has_comparison &= verb != "destroy"
        self.judge_text(outcome)

    # What happens while an update goes on.

    def _meanwhile(self, way: str, moment: float, happen: Callable[[Running], None]) -> Outcome:
        """Let it happen at that moment of an `up`; wait for the end of all."""
        running = self.world.start(*self.words_of("up", way))
        with suppress(psutil.TimeoutExpired):
            psutil.Process(running.process.pid).wait(moment * self.longest_seconds)
        happen(running)
        outcome = running.end()
        self.wait_for_the_end()
        self.stack.interrupted()
        self.judge_text(outcome)
        return outcome

    @step(
        10,
        way=WAYS,
        moment=MOMENTS,
        signals=st.lists(st.sampled_from(["SIGINT", "SIGTERM", "SIGKILL"]), min_size=1, max_size=2),
        which=st.integers(-2, 11),
    )
    def kill(self, way: str, moment: float, signals: list[str], which: int) -> None:
        """Send signals to one process of an update; where `which` is negative to the group, as a terminal does."""

        def happen(running: Running) -> None:
            processes = self.world.processes()
            if not processes:
                return
            victim = running.group if which < 0 else processes[which % len(processes)]
            command = self.world.command_of(victim)
            say(f"    # to {command[:150]}")
            for name in signals:
                # A terminal's key reaches none of these, and Python's own answer to it is a traceback.
                hears = name != "SIGINT" or not any(part in command for part in PULUMIS_PYTHON)
                with suppress(psutil.Error, ProcessLookupError):
                    victim.send_signal(signal.Signals[name] if hears else signal.SIGTERM)
                time.sleep(random.random())  # noqa: S311 - nothing waits for it

        self._meanwhile(way, moment, happen)

    @step(2, way=WAYS, moment=MOMENTS)
    def cancel(self, way: str, moment: float) -> None:
        """`pulumi cancel` beside it."""
        self._meanwhile(way, moment, lambda _: self.judge_text(self.world.run("pulumi", "cancel", "--yes")))

    @step(1, way=WAYS, moment=MOMENTS, seconds=st.sampled_from([-DAY, 0, DAY]))
    def jump_meanwhile(self, way: str, moment: float, seconds: int) -> None:
        """Let the clock jump beside it."""
        self._meanwhile(way, moment, lambda _: self.world.set_clock(seconds))

    @step(2, way=WAYS, moment=MOMENTS, name=FOLDERS)
    def lose_folder_meanwhile(self, way: str, moment: float, name: str) -> None:
        """Delete a folder beside it."""
        self._meanwhile(way, moment, lambda _: self.world.damage(name, "deleted"))

    @step(1, way=WAYS, moment=MOMENTS)
    def change_code_meanwhile(self, way: str, moment: float) -> None:
        """Change a line of the arms beside it."""
        self._meanwhile(way, moment, lambda _: self.world.change_code())

    @step(3, way=WAYS, other_way=WAYS, moment=MOMENTS)
    def two_at_once(self, way: str, other_way: str, moment: float) -> None:
        """A second `up` of the same stack beside it: refused, or after it."""
        was_unsure, outcomes = self.stack.is_unsure, list[Outcome]()
        outcome = self._meanwhile(way, moment, lambda _: outcomes.append(self.up(other_way)))
        for each in (outcome, *outcomes):
            self.judge_text(each)
            assert was_unsure or each.code == 0 or any(words in each.text for words in LOCKED), each.text


STEPS: st.SearchStrategy[Step] = st.sampled_from(_WEIGHTED).flatmap(_ALL.__getitem__)
"""Any of them, as often as its weight says."""
