"""Keeps one comment on a pull request up to date, by the GitHub CLI, which every runner has; writes no text.

The comment is found again by its marker, its first line; only what the workflow's own account wrote is touched. `gh pr
comment --edit-last` would not do: two workflows comment as the same account, and each would replace the other's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.setup.project import ToolError, capture

ACCOUNT = "github-actions[bot]"


def keep_comment(environment: Mapping[str, str], text: str) -> str:
    """Write or update the comment on the workflow's pull request. Return `made`, `updated` or `unchanged`."""
    repository, number = _pull_request(environment)
    marker = text.partition("\n")[0]
    if not marker.startswith("<!--"):
        raise ToolError("the comment's first line is no marker: it could not be found again")
    comments = f"repos/{repository}/issues/{number}/comments"
    printed = _gh("--paginate", f"{comments}?per_page=100", "--jq", ".[] | {id, login: .user.login, body}")
    for comment in map(json.loads, printed.splitlines()):
        if comment["login"] == ACCOUNT and comment["body"].startswith(marker):
            if comment["body"].strip() == text.strip():
                return "unchanged"
            path = f"repos/{repository}/issues/comments/{comment['id']}"
            _gh("--method", "PATCH", path, "--raw-field", f"body={text}")
            return "updated"
    _gh("--method", "POST", comments, "--raw-field", f"body={text}")
    return "made"


def _pull_request(environment: Mapping[str, str]) -> tuple[str, int]:
    """Return the repository and the number of the pull request for which the workflow runs. Raise ToolError that names
    the missing environment variables."""
    lacking = [name for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not environment.get(name)]
    path = environment.get("GITHUB_EVENT_PATH", "")
    event: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    number = environment.get("PULL_REQUEST") or str(event.get("pull_request", {}).get("number", ""))
    if not number and not lacking and "workflow_run" in event:
        number = _number_of_run(environment["GITHUB_REPOSITORY"], event["workflow_run"])
    if lacking or not number:
        raise ToolError(
            f"no pull request to comment on: set {', '.join([*lacking, *([] if number else ['PULL_REQUEST'])])}"
        )
    return environment["GITHUB_REPOSITORY"], int(number)


def _number_of_run(repository: str, run: Mapping[str, Any]) -> str:
    """Return the number of the open pull request for which another workflow ran, because GitHub's event names none for
    a fork. Raise ToolError if no open pull request has that commit as its head."""
    branch = f"head={run['head_repository']['owner']['login']}:{run['head_branch']}"
    printed = _gh("--method", "GET", f"repos/{repository}/pulls", "--raw-field", branch, "--jq", ".[] | {number, head}")
    for pull in map(json.loads, printed.splitlines()):
        if pull["head"]["sha"] == run["head_sha"]:
            return str(pull["number"])
    raise ToolError(
        f"no open pull request has {run['head_sha'][:12]} as its head: a newer run comments, if there is one"
    )


def _gh(*arguments: str) -> str:
    """Return the output of `gh api`, which takes the token from GITHUB_TOKEN and sends it only to GitHub's host."""
    try:
        done = capture(["gh", "api", *arguments])
    except FileNotFoundError:
        raise ToolError("gh, the GitHub CLI, is not on PATH") from None
    if done.returncode != 0:
        path = next(each for each in arguments if each.startswith("repos/"))
        raise ToolError(f"GitHub refused {path}: {done.stderr.strip()[:300]}")
    return done.stdout
