"""Keeps one comment on a pull request up to date, through GitHub's REST API. Standard library only; writes no text.

The comment is found again by its marker, its first line; only what the workflow's own account wrote is touched.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.setup.project import ToolError

_PAGE = 100
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class PullRequest:
    """The pull request to comment on, and the account."""

    api: str
    repository: str
    number: int
    token: str
    account: str = "github-actions[bot]"


def from_environment(environment: Mapping[str, str]) -> PullRequest:
    """The pull request of the workflow run; ToolError that names what the environment lacks."""
    lacking = [name for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not environment.get(name)]
    number = environment.get("PULL_REQUEST") or _number_of_event(environment.get("GITHUB_EVENT_PATH", ""))
    if lacking or not number:
        raise ToolError(
            f"no pull request to comment on: set {', '.join([*lacking, *([] if number else ['PULL_REQUEST'])])}"
        )
    return PullRequest(
        api=environment.get("GITHUB_API_URL", "https://api.github.com"),
        repository=environment["GITHUB_REPOSITORY"],
        number=int(number),
        token=environment["GITHUB_TOKEN"],
    )


def _number_of_event(path: str) -> str:
    if not path:
        return ""
    event = json.loads(Path(path).read_text(encoding="utf-8"))
    return str(event.get("pull_request", {}).get("number", ""))


def keep_comment(where: PullRequest, text: str) -> str:
    """Make the comment, or bring it up to date; says which: made, updated, unchanged."""
    marker = text.partition("\n")[0]
    if not marker.startswith("<!--"):
        raise ToolError("the comment's first line is no marker: it could not be found again")
    for comment in _comments(where):
        if comment["user"]["login"] == where.account and comment["body"].startswith(marker):
            if comment["body"].strip() == text.strip():
                return "unchanged"
            _call(where, "PATCH", f"issues/comments/{comment['id']}", {"body": text})
            return "updated"
    _call(where, "POST", f"issues/{where.number}/comments", {"body": text})
    return "made"


def _comments(where: PullRequest) -> Iterator[dict[str, Any]]:
    page = 1
    while True:
        comments = _call(where, "GET", f"issues/{where.number}/comments?per_page={_PAGE}&page={page}")
        yield from comments
        if len(comments) < _PAGE:
            return
        page += 1


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would send the token along, to whatever host is named."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that a redirect is an error."""


def _call(where: PullRequest, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - the API's address comes from the workflow's environment
        f"{where.api}/repos/{where.repository}/{path}",
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {where.token}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read())
    except (urllib.error.URLError, ValueError) as error:
        answer_text = error.read().decode(errors="replace")[:300] if isinstance(error, urllib.error.HTTPError) else ""
        raise ToolError(f"GitHub refused {method} {path}: {error} {answer_text}".strip()) from error
