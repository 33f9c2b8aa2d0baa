"""The Ray cluster of a stack of target `ray`, for tools that ask it outside an update.

The stack's file has the token encrypted: pulumi decrypts it, or RAY_AUTH_TOKEN holds it, as for Ray's own commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cli.look.status_view import ray_lines
from cli.setup.project import SWEEP_PREFIX, ToolError, capture, last_line, say, stack_file
from cli.stack import config as stack_config
from cli.stack import environment
from cli.stack import settings as stack_settings
from infra.places.ray.place import readable
from infra.settings.settings import Settings
from training.launch.ray.jobs_api import TOKEN, JobsApi, SubmitError, is_readable_on_the_way, patiently

KEY = "rayToken"


@dataclass(frozen=True)
class StackRay:
    """A stack that uses an existing Ray cluster."""

    stack: str
    settings: Settings
    """The settings with the token."""

    @cached_property
    def jobs(self) -> JobsApi:
        """Return the cluster's Job Submission API."""
        return JobsApi(self.settings.of_ray.ray_address, self.settings.of_ray.ray_token)

    def status(self) -> str:
        """Return a text about the cluster's nodes and jobs as they are now. Raise ToolError if Ray cannot be asked."""
        try:
            version, nodes, jobs = patiently(self._state, "ask Ray")
        except SubmitError as error:
            raise ToolError(f"stack {self.stack}: {error}") from None
        address = self.settings.of_ray.ray_address
        lines = [f"stack {self.stack}: Ray {version} at {address}", "", *ray_lines(nodes, jobs), "", self.dashboard]
        return "\n".join(lines)

    def _state(self) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
        return self.jobs.version(), self.jobs.nodes(), self.jobs.jobs()

    @property
    def dashboard(self) -> str:
        """Return a text for users with the dashboard's address, and where to find its token."""
        return f"dashboard: {self.settings.of_ray.ray_address}, its token: the one that rayToken holds"


def find(stack: str, overrides: Mapping[str, str]) -> StackRay | None:
    """Return the Ray cluster that a stack's settings name; None for other targets. Raise ToolError if the settings or
    the token cannot be read."""
    settings = stack_settings.load(stack, overrides)
    if not settings.ray:
        return None
    stack_ray = StackRay(stack, with_token(settings, stack))
    address = settings.of_ray.ray_address
    if stack_ray.settings.of_ray.ray_token and is_readable_on_the_way(address):
        say(f"{KEY}: {readable(address)}")
    return stack_ray


def with_token(settings: Settings, stack: str) -> Settings:
    """Return the settings with the cluster's token, which no file contains as plain text. Raise ToolError if the token
    cannot be decrypted."""
    token = os.environ.get(TOKEN) or _token(stack)
    return replace(settings, ray=replace(settings.of_ray, ray_token=token))


def _token(stack: str) -> str:
    """Return the decrypted token from the stack's file, for a sweep from the file of its source stack; "" if there is
    none. Raise ToolError if it cannot be decrypted."""
    stack = stack.removeprefix(SWEEP_PREFIX)
    if not any(key.rpartition(":")[2] == KEY for key in stack_config.config_of(stack)):
        return ""
    variables = environment.for_pulumi(os.environ, "ray")
    command = ["pulumi", "config", "get", KEY, "--stack", stack, "--config-file", str(stack_file(stack))]
    done = capture(command, environment=variables)
    if done.returncode:
        raise ToolError(
            f"stack {stack}: {KEY} can't be decrypted ({last_line(done.stderr)}); {TOKEN}=… before it tells it, too"
        )
    return done.stdout.strip()
