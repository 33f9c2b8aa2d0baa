"""The stack of a sweep, driven through Pulumi's Automation API. Which settings it gets, and when, is decided elsewhere.

Commands that run the program have a session of their own and the terminal (`cli.stack.session`), as under `./rwi up`:
nothing of them is left behind when one is killed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulumi import automation
from pulumi.automation import CommandError, CommandResult, LocalWorkspace, OnOutput, PulumiCommand, Stack

from cli.setup.project import ROOT, ToolError, last_line
from cli.stack import config as stack_config
from cli.stack import environment, session
from cli.stack.further import ONE_AT_A_TIME, Further
from cli.stack.recovery import Recovery

_LIVE = ("up", "destroy")


class UpdateInterruptedError(ToolError):
    """The user pressed Ctrl-C, or the process was told to end."""


class UpdateFailedError(ToolError):
    """An update ended with an error, which pulumi has shown."""


class SessionCommand(PulumiCommand):
    """Runs `up` and `destroy` in the project's folder through `cli.stack.session`, other commands as its parent does.

    The other commands may make pulumi write a salt into the settings beside the project file, so they run in another
    folder than the one with the settings in git.
    """

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
    ) -> CommandResult:
        """Run the command. Raises CommandError when it fails, and UpdateInterruptedError when it was told to stop."""
        if args[0] not in _LIVE:
            return super().run(args, cwd, additional_env, on_output, on_error)
        with _interruptions() as interrupted:
            code = session.run([self.command, *args], {**os.environ, **additional_env}, ROOT)
            if code != 0 and interrupted():
                raise UpdateInterruptedError
        result = CommandResult(stdout="", stderr="", code=code)
        if code != 0:
            raise CommandError(result)
        return result


@contextmanager
def _interruptions() -> Iterator[Any]:
    """Yield a function that returns whether a signal to end came, which `session` handles but does not report."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    previous = signal.set_wakeup_fd(writing)

    def interrupted() -> bool:
        try:
            return bool(set(os.read(reading, 4096)) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        except BlockingIOError:
            return False

    try:
        yield interrupted
    finally:
        signal.set_wakeup_fd(previous)
        os.close(reading)
        os.close(writing)


class SweepStack:
    """A stack that is updated to the settings of a sweep's points, one after another."""

    def __init__(self, name: str, settings: str, target: str) -> None:
        self.name = name
        self._settings = settings
        self._environment = environment.for_pulumi(os.environ, target) | ONE_AT_A_TIME
        folder = stack_config.write_init_project()
        self._recovery = Recovery(stack=name, target=target, environment=self._environment, folder=folder)
        self._recovery.restore_state()
        self._stack = self._create_or_select(folder)

    def _create_or_select(self, folder: Path) -> Stack:
        """Create or select the stack in its own folder, where pulumi writes its salt and its selection."""
        os.environ["PATH"] = self._environment["PATH"]  # PulumiCommand looks for the CLI there, and nowhere else
        workspace = LocalWorkspace(
            work_dir=str(folder), env_vars=dict(self._environment), pulumi_command=SessionCommand()
        )
        return automation.Stack.create_or_select(self.name, workspace)

    def measure(self, overrides: Mapping[str, str]) -> str:
        """Update the stack with its file's settings and `overrides`, and return the comparison as JSON. Raise
        UpdateFailedError or UpdateInterruptedError if the update does not end well."""
        config = self._write_config(overrides)
        self._recovery.clear(config, dict(overrides))
        further, comparison = Further("The sweep goes on with its next point"), self._update(config)
        while further.is_due(comparison):
            comparison = self._update(config)
        return comparison

    def _update(self, config: Path) -> str:
        try:
            outputs = self._stack.up(config_file=str(config), suppress_outputs=True).outputs
        except CommandError as error:
            self._recovery.restore_state()
            raise UpdateFailedError(self._why_failed()) from error
        comparison = outputs.get("comparison")
        if comparison is None:
            raise UpdateFailedError("the update gave no comparison")
        return comparison.value if isinstance(comparison.value, str) else json.dumps(comparison.value)

    def remove(self) -> None:
        """Destroy the stack's resources and remove the stack. Raise UpdateFailedError if that fails."""
        config = self._write_config({})
        self._recovery.clear(config, {})
        try:
            self._stack.destroy(config_file=str(config), suppress_outputs=True)
        except CommandError as error:
            raise UpdateFailedError(f"stack {self.name} could not be destroyed") from error
        self._stack.workspace.remove_stack(self.name)

    def _write_config(self, overrides: Mapping[str, str]) -> Path:
        config = stack_config.write_copy(self._settings, self.name)
        if overrides:
            arguments = [*stack_config.overrides_command(overrides), "--stack", self.name, "--config-file", str(config)]
            try:
                self._stack.workspace.pulumi_command.run(arguments, str(ROOT), self._environment)
            except CommandError as error:
                raise ToolError(last_line(str(error))) from error
        return config

    def _why_failed(self) -> str:
        return f"see pulumi's message above; its runs' logs are in runs/{self.name}/"
