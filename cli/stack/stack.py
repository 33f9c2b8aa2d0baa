"""One stack (up, preview, destroy, outputs, report): pulumi's own commands, in order. They add nothing that a
measurement depends on: a plain `pulumi up` makes the same runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.setup.project import (
    CLUSTER_TARGETS,
    ROOT,
    SMOKE,
    STATE,
    ToolError,
    checked_stack_name,
    last_line,
    say,
    shown_file,
    stack_file,
    stack_text,
    target_of,
)
from cli.stack import config as stack_config
from cli.stack import environment, followed, outputs, preview_words, session
from cli.stack.further import ONE_AT_A_TIME, Further
from cli.stack.recovery import Recovery
from cli.stack.update import Update, ending
from training.machine.command_line import from_there, rwi

if TYPE_CHECKING:
    from cli.stack.expected import Expected
    from infra.settings.settings import Settings

_SMOKE_SETTINGS = {"epochs": "1", "repeats": "1", "trainImages": "256", "warmupSteps": "1"}


class Stack:
    """One stack of this project, with the environment for its commands and the settings of this one call."""

    def __init__(self, name: str, overrides: dict[str, str]) -> None:
        self.name = checked_stack_name(name)
        self.overrides = {**_SMOKE_SETTINGS, **overrides} if name == SMOKE else overrides
        self.settings = stack_text(name)
        self.target = overrides.get("target", target_of(self.settings))
        self.environment = environment.for_pulumi(os.environ, self.target) | ONE_AT_A_TIME
        self._recovery = Recovery(stack=self.name, target=self.target, environment=self.environment)
        self._pulumi = self._recovery.pulumi
        self._followed = Update()
        self._complete_repeats = 0

    def up(self) -> int:
        """Update, then show and publish the comparison. After a failure, print what is kept and what to type. Return
        the exit status."""
        if self.target in CLUSTER_TARGETS:
            return self._up_in_cluster()
        return self._close(self._measure())

    def _up_in_cluster(self) -> int:
        """Lock this machine and start a stopped cluster first, if the stack's place needs that; then update. Return the
        exit status."""
        from cli.look import failure_reason, update

        with update.ready(self.target, self.name, self.overrides):
            before = failure_reason.ended(self.name, self.overrides)
            status = self._measure()
        if status != 0:
            failure_reason.tell(self.name, self.overrides, before)
            say(f"To have all that is known of its cluster in one archive:  {rwi('doctor --archive', self.name)}")
        return self._close(status)

    def _close(self, status: int) -> int:
        """Show the comparison, or what is kept of an update that failed. Return the exit status."""
        if status == 0:
            return self.show(self.comparison())
        outputs = rwi("outputs", self.name) if self._has_comparison() else ""
        print(flush=True)
        again = rwi("up", self.name, self.overrides)
        for line in ending(self._followed, status, again, outputs, self._complete_repeats):
            say(self._for_rwi(line))
        return status

    def _for_rwi(self, text: str) -> str:
        """Return a message of the program with its `pulumi` commands replaced by `rwi` commands."""
        if not any(
            command in text for command in ("pulumi config", "pulumi refresh")
        ):  # almost always: the settings need not be loaded for it
            return text
        from cli.stack.lines import for_rwi

        return for_rwi(text, self.name, self.overrides)

    def _has_comparison(self) -> bool:
        try:
            return self.comparison() is not None
        except ToolError:  # the state can't be read, which the update has said
            return False

    def _measure(self) -> int:
        """Update the stack; with `repeats auto`, update again for each further repeat until the update fails, somebody
        stops it, or no repeat is due. Return the exit status."""
        again = f"`{rwi('up', self.name, self.overrides)}` goes on"  # without these settings it would not
        further, status = Further(again), self.update()
        while status == 0 and not self._followed.is_stopped and further.is_due(self.comparison()):
            self._complete_repeats = further.repeats
            status = self.update()
        return status

    def update(self) -> int:
        """Run `pulumi up`, after removing what a killed update left. Return the exit status."""
        self.select()
        if self.target in CLUSTER_TARGETS or any((STATE / "kubeconfig").glob("*")):
            self._refuse_to_move_others()
        config = self._write_config()
        self._recovery.clear(config, self.overrides)
        followed.remember_set(self.name, self.overrides)
        return self._run("up", "--yes", config=config)

    def _refuse_to_move_others(self) -> None:
        """Refuse to change the namespace or the target of the stack while somebody else's job runs in the stack's
        present namespace."""
        from cli.look import update

        pinned_as, namespaces = self._recovery.ray_clusters()
        if namespaces:
            update.refuse_to_move_others(self.name, self.overrides, namespaces, pinned_as)

    def preview(self) -> int:
        """Print what `up` would do, first in words. Wait only briefly for a cluster that cannot be reached, because a
        preview creates nothing."""
        self.select()
        self.environment.setdefault("PULUMI_K8S_CLIENT_TIMEOUT", "4")
        config = self._write_config()
        if followed.may_ask(config.read_text(encoding="utf-8"), self.environment):
            self._print_expected()
            return session.run(self._command("preview", config=config), self.environment, ROOT)
        colour = ["--suppress-progress", "--color", "always" if sys.stdout.isatty() else "never"]
        command = [*self._command("preview", config=config), *colour]
        status, previewed = followed.run_quietly(command, self.environment, self.name)
        if status == 0 and (text := preview_words.words(previewed, self.name, self._seconds_of_arms())):
            print(f"{text}\n", flush=True)
        if status or previewed.to_make:
            self._print_expected()
        followed.print_output(self.name, self._for_rwi)
        if status:
            self._recovery.restore_state()
        return status

    def destroy(self) -> int:
        """Delete the resources of the stack, but keep its runs and results. Refuse this while somebody else's job runs
        on its cluster."""
        if not self._exists():
            say(f"stack {self.name}: there is none, so nothing is left to destroy")
            return 0
        pinned_as, namespaces = self._recovery.ray_clusters()
        for namespace in namespaces:
            from cli.look import update

            update.refuse_to_end_others(self.name, namespace, pinned_as)
        say(
            f"stack {self.name}: what it holds goes; its runs and results stay, in"
            f" runs/{self.name} and results/{self.name}"
        )
        config = self._write_config()
        self._recovery.clear(config, self.overrides)
        status = self._run("destroy", "--yes", config=config)
        if status == 0 and self.name != SMOKE:  # pulumi's last line tells the user to remove the stack
            say(
                f"stack {self.name}: its settings ({shown_file(stack_file(self.name))}), runs and results are left."
                " Nothing more is to be typed: `pulumi stack rm` would delete the settings."
            )
        return status

    def report(self) -> int:
        """Write the comparison to results/, for a measurement that a plain `pulumi up` made. Return the exit status."""
        return _report_command(["publish", "--stack", self.name], self.measured())

    def measured(self) -> str:
        """Return the comparison as JSON. Raise ToolError if there is none; its message says what there is instead."""
        comparison = self.comparison() if self._exists() else None
        if comparison is None:
            raise ToolError(self._why_no_measurement())
        return comparison

    def _why_no_measurement(self) -> str:
        """Return why there is no measurement, and what there is: a running one, or a destroyed stack's results."""
        kept = (ROOT / "results" / self.name / "latest").exists()
        look = (
            f"\n  its last result:  {rwi('report open --result latest', self.name)}\n"
            f"  all of them:      {rwi('report history', self.name)}"
        ) * kept
        if pid := self._recovery.running():
            follow = rwi("status --watch", self.name)
            return f"stack {self.name} is at work now (process {pid}); follow it:  {follow}{look}"
        if kept:
            return f"stack {self.name} holds no measurement now; its results are kept:{look}"
        again = rwi("up", self.name, followed.last_set(self.name))
        return f"stack {self.name} has no measurement yet: `{again}`"

    def remove(self) -> None:
        """Remove an empty stack and its settings. This runs outside the project's root, where pulumi would also forget
        which stack is selected."""
        self._pulumi("stack", "rm", "--yes", "--remove-backups", folder=stack_config.write_init_project())

    def _exists(self) -> bool:
        self._recovery.restore_state()
        listed = json.loads(self._pulumi("stack", "ls", "--json"))
        return any(entry["name"].rpartition("/")[2] == self.name for entry in listed)

    def select(self) -> int:
        """Select this stack for plain `pulumi` commands, and create it if needed. `smoke` is not selected."""
        if not self._exists():
            folder = stack_config.write_init_project()
            self._pulumi("stack", "init", "--no-select", folder=folder)
        if self.name != SMOKE:
            self._pulumi("stack", "select")
        return 0

    def _write_config(self) -> Path:
        config = stack_config.write_copy(self.settings, self.name)
        if self.overrides:
            self._pulumi(*stack_config.overrides_command(self.overrides), "--config-file", str(config))
        return config

    def show(self, comparison: str | None) -> int:
        """Print the table, publish the comparison, and print the answer and the path of the report. Return the exit
        status of the first step that failed. Publishing counts first, because a result that is only on the screen is
        soon lost."""
        if comparison is None:
            return 0
        shown = _report_command(["table"], comparison)
        published = _publish(self.name, comparison)
        folder = ["--folder", last_line(published.stdout)] if published.stdout.strip() else []
        settings = [f"--setting={key}={value}" for key, value in self.overrides.items()]
        print(flush=True)
        closed = _report_command(["closing", "--stack", self.name, *folder, *settings], comparison)
        return published.returncode or shown or closed

    def comparison(self) -> str | None:
        """Return the output `comparison` as JSON; None before the first complete measurement."""
        stored = outputs.in_state(self.name)
        comparison = json.loads(self._pulumi("stack", "output", "--json", "--show-secrets")).get("comparison")
        text = comparison if comparison is None or isinstance(comparison, str) else json.dumps(comparison)
        outputs.keep(self.name, stored, text)
        return text

    def _run(self, *arguments: str, config: Path) -> int:
        """Run a pulumi command that changes the stack, in its own session, shown live. Return its exit status."""
        command = self._command(*arguments, config=config)
        with self._recovery.begun():
            if arguments[0] == "up":
                status = self._run_followed(command, config)
            else:
                status = session.run(command, self.environment, ROOT)
        if status:
            self._recovery.restore_state()
        return status

    def _command(self, *arguments: str, config: Path) -> list[str]:
        # The comparison among the outputs is hundreds of lines, and the table that follows says it in ten.
        return ["pulumi", *arguments, "--suppress-outputs", "--stack", self.name, "--config-file", str(config)]

    def _run_followed(self, command: Sequence[str], config: Path) -> int:
        """Run an update that first prints in words what it will do, and shows its runs if this is a terminal. Return
        its exit status."""
        new_screen = None
        known = self._seconds_of_arms()
        settings = config.read_text(encoding="utf-8")
        if followed.is_on_terminal() and not followed.may_ask(settings, self.environment):
            source = followed.source(self.target, self.name, self.overrides)
            new_screen = partial(followed.new_screen, source, known, self._for_rwi)

        def tell(update: Update) -> None:
            if text := preview_words.words(update, self.name, known):
                print(text, flush=True)

        status, self._followed = followed.run(
            command, self.environment, self.name, new_screen=new_screen, previewed=tell
        )
        if status and new_screen and not self._followed.is_stopped:
            printed = followed.folder_of(self.name).relative_to(ROOT) / followed.PRINTED
            say(f"All that pulumi printed: {from_there(str(printed))}")
        return status

    def _seconds_of_arms(self) -> dict[str, float]:
        """Return the expected seconds of a run by arm; empty if they are not known: no command depends on them."""
        return self._expected.seconds_of_arms() if self._expected else {}

    def _print_expected(self) -> None:
        """Print how long a whole measurement will probably take, or which command to run to find that out."""
        if self._expected and (text := self._expected.text()):
            print(f"{self._for_rwi(text)}\n", flush=True)

    @cached_property
    def _expected(self) -> Expected | None:
        from cli.stack.expected import Expected  # loads infra, which the commands about results do without

        try:
            return Expected(self.checked_settings, self.overrides)
        except (ToolError, OSError):
            return None

    @cached_property
    def checked_settings(self) -> Settings:
        """Return the settings, checked by the same rules as in the program. Raise ToolError that lists all problems."""
        from cli.stack import settings as stack_settings  # loads infra, too

        return stack_settings.load(self.name, self.overrides)


def smoke(overrides: dict[str, str]) -> int:
    """Run the smallest full comparison in the stack `smoke`, which is removed afterwards. Return the exit status."""
    stack = of(SMOKE, overrides, checked=True)
    status = stack.update()
    comparison = stack.comparison()
    destroyed = stack.destroy()
    if destroyed == 0:
        stack.remove()
    not_shown = _say_what_smoke_did(comparison, is_whole=status == 0, is_gone=destroyed == 0)
    return status or destroyed or not_shown


def _say_what_smoke_did(comparison: str | None, *, is_whole: bool, is_gone: bool) -> int:
    """Print and publish the table of the smallest comparison, and what it proves: that everything runs. It is too small
    for an answer. Return the exit status."""
    if comparison is None or not is_whole:
        return 0
    shown = _report_command(["table"], comparison)
    published = _report_command(["publish", "--stack", SMOKE], comparison)
    print(flush=True)
    closed = _report_command(["smoke"], comparison)
    say(f"stack {SMOKE} is gone" if is_gone else f"stack {SMOKE} is still there: `{rwi('destroy', SMOKE)}`")
    return published or shown or closed


def _report_command(arguments: Sequence[str], comparison: str) -> int:
    command = [sys.executable, "-m", "report", *arguments]
    return subprocess.run(command, cwd=ROOT, input=comparison, text=True, check=False).returncode


def _publish(stack: str, comparison: str) -> subprocess.CompletedProcess[str]:
    """Publish the comparison. Return the process, whose stdout ends with the path of the result's folder."""
    command = [sys.executable, "-m", "report", "publish", "--stack", stack]
    return subprocess.run(command, cwd=ROOT, input=comparison, stdout=subprocess.PIPE, text=True, check=False)


def of(name: str, overrides: dict[str, str], *, checked: bool = False) -> Stack:
    """Return a stack; with `checked` wrong settings are refused before anything is made for them."""
    stack = Stack(name, overrides)
    if checked:
        stack.checked_settings  # noqa: B018
    return stack


def up(name: str, overrides: dict[str, str]) -> int:
    """Run what is missing of the measurement, and show the comparison. Return the exit status."""
    return smoke(overrides) if name == SMOKE else of(name, overrides, checked=True).up()
