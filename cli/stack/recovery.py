"""Clears what an update that was killed, or a full disk, left of a stack: by pulumi's own commands, before the next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.setup.project import CLUSTER_TARGETS, ROOT, ToolError, capture, project_name, say
from cli.stack import state
from training.machine.command_line import rwi

_HELM_RELEASE = "kubernetes:helm.sh/v3:Release::"
"""Part of the URN of a Helm release, of which Helm keeps its own record in the cluster."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Clears what killed updates of a stack left. `folder` is where short pulumi commands run, because pulumi may write
    a salt there."""

    stack: str
    target: str
    environment: Mapping[str, str]
    folder: Path = ROOT

    def clear(self, config: Path, overrides: dict[str, str]) -> None:
        """Remove what a killed update left: its lock and its pending creates, whose Helm release is marked as failed.
        Raise ToolError if they cannot be removed."""
        self._remove_stale_lock()
        begun = self._clear_pending_creates(config)
        if self.target in CLUSTER_TARGETS and any(_HELM_RELEASE in urn for urn in begun):
            from cli.look import update

            update.mark_interrupted_release(self.stack, overrides)

    def begun(self) -> AbstractContextManager[None]:
        """Return a context manager for the time in which pulumi updates the stack. It records where the update runs, so
        that a lock left by a kill is not confused with another container's."""
        return state.begun(self._backend, project_name(), self.stack)

    def running(self) -> int | None:
        """Return the id of the process on this machine that is working on the stack now; None if there is none."""
        return state.running(self._backend, project_name(), self.stack) if self._backend else None

    def restore_state(self) -> None:
        """Put back the state before the last if any state of the project was cut off, because then every later command
        fails. Raise ToolError if no whole state is left."""
        cut_off = state.cut_off(self._backend, project_name()) if self._backend else {}
        for stack, file in cut_off.items():
            if not (self._backend and state.restore(self._backend, file)):
                raise state.lost(file)
            say(
                f"stack {stack}: its state was cut off while it was written, as a full disk does; the state before"
                " that step is back. Make room first; then the same command goes on from there"
            )

    def _remove_stale_lock(self) -> None:
        """Remove the lock that a killed pulumi left in a file backend, because every later command would refuse to run.
        Raise ToolError if the lock may be in use."""
        if not self._backend:
            return
        if pid := self.running():
            raise ToolError(
                f"stack {self.stack}: another pulumi works on it (process {pid}); nothing was changed\n"
                f"  follow it:  {rwi('status --watch', self.stack)}\n"
                f"  stop it:    kill -INT {pid}    (the run that goes on is finished and kept)"
            )
        if cut := state.unreadable_locks(self._backend, project_name(), self.stack):
            files = " ".join(shlex.quote(str(file)) for file in cut)
            raise ToolError(
                f"stack {self.stack}: a lock was cut off while it was written, as a full disk does, and whose it is"
                f" can't be read; nothing was changed. Where no pulumi works on the stack:\n  rm {files}"
            )
        if state.has_only_stale_locks(self._backend, project_name(), self.stack):
            say(f"stack {self.stack}: removing the lock of an update that was killed")
            self.pulumi("cancel", "--yes")

    def _clear_pending_creates(self, config: Path) -> list[str]:
        """Drop the resources whose creation a killed update had begun, and return their URNs. The refresh is limited to
        the stack resource itself, so no provider is called."""
        deployment = self._deployment()
        begun = state.pending_creates(deployment)
        if begun:
            say(f"stack {self.stack}: dropping {len(begun)} resource(s) whose creation was interrupted")
            root = state.root_urn(deployment)
            targets = ["--target", root] if root else []
            clear = ["refresh", "--yes", "--non-interactive", "--clear-pending-creates", *targets]
            self.pulumi(*clear, "--config-file", str(config), folder=ROOT)  # it looks for the program
        return begun

    def ray_clusters(self) -> tuple[str, list[str]]:
        """Return the name by which the stack's cluster is reached, and its RayClusters' namespaces, from the state."""
        deployment = self._deployment()
        return state.pinned_as(deployment) or self.stack, state.ray_namespaces(deployment)

    def _deployment(self) -> Mapping[str, Any]:
        deployment: Mapping[str, Any] = json.loads(self.pulumi("stack", "export")).get("deployment") or {}
        return deployment

    def pulumi(self, *arguments: str, folder: Path | None = None) -> str:
        """Run a short pulumi command and return its stdout. Raise ToolError with its error output if it fails."""
        command = ["pulumi", *arguments, *([] if arguments[:2] == ("stack", "ls") else ["--stack", self.stack])]
        result = capture(command, folder or self.folder, self.environment)
        if result.returncode != 0:
            raise ToolError(f"`{' '.join(command[:3])}`: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout

    @property
    def _backend(self) -> Path | None:
        return state.file_backend(self.environment.get("PULUMI_BACKEND_URL", ""))
