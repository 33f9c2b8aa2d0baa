"""The workflows of GitHub: whoever runs a pull request's code has nothing to steal and nothing to write with.

The rules are computed from the parsed YAML. What changes a workflow for the worse is tried below.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.setup.project import ROOT
from cli.setup.vendor_download import VERSION as PULUMI
from cli.wheel.backend import PYTHONS
from tests.docs.known import problems

RELEASE = ROOT / ".github/workflows/release.yml"
WORKFLOWS = sorted({*(ROOT / ".github/workflows").glob("*.yml")} - {RELEASE})
BASE = "${{ github.event.pull_request.base.sha }}"
TRIGGERS = {"pull_request"}
"""Those on which a fork's pull request gets neither secrets nor a token that writes."""
READ_ONLY = {"contents": "read"}
CREDENTIALS = re.compile(r"\bsecrets\b|\bgithub\s*\.\s*token\b|GITHUB_TOKEN|\btoJSON\(\s*github\b", re.IGNORECASE)
POSTS = re.compile(r"python3 -m cli\.pull_request post (preview|measure|commits) \w+")
"""All that a job that may write runs: a script of the base, with data to make the comment from, and no text."""


def violations(workflow: dict[Any, Any]) -> list[str]:
    """What in a workflow would let a pull request's code have a secret, or write."""
    problems = []
    triggers = workflow.get("on", workflow.get(True))  # YAML 1.1 reads `on` as true
    if set(triggers if isinstance(triggers, dict | list) else [triggers]) - TRIGGERS:
        problems.append(f"it is started by {triggers}")
    if workflow.get("permissions") != {}:
        problems.append("its jobs have permissions by default")
    if CREDENTIALS.search(_text({key: value for key, value in workflow.items() if key != "jobs"})):
        problems.append("every job has a credential")
    for name, job in workflow["jobs"].items():
        problems += [f"{name} {problem}" for problem in _job_violations(job)]
    return problems


def _job_violations(job: dict[str, Any]) -> Iterator[str]:
    if "uses" in job:
        yield "runs another workflow, of which nothing is known here"
        return
    steps = job["steps"]
    for step in steps:
        yield from _step_violations(step)
    if _runs_the_pull_request(job):
        if (job.get("permissions") or {}) != READ_ONLY:
            yield f"runs the pull request's code with the permissions {job.get('permissions')}"
        if CREDENTIALS.search(_text(job)):
            yield "runs the pull request's code with a credential"
    else:
        commands = [step["run"].strip() for step in steps if "run" in step]
        for command in commands:
            if not POSTS.fullmatch(command):
                yield f"may write, and runs {command!r}"


def _step_violations(step: dict[str, Any]) -> Iterator[str]:
    action, inputs = str(step.get("uses", "")), step.get("with", {})
    if action and not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action):
        yield f"uses {action}, which is not pinned to a commit"
    if action.startswith("actions/checkout@") and inputs.get("persist-credentials") is not False:
        yield "leaves the token in the checkout"
    if action.startswith("pulumi/actions@") and inputs.get("pulumi-version") != PULUMI:
        yield f"installs another Pulumi than {PULUMI}, which `./rwi` downloads"
    if action.startswith("actions/download-artifact@") and not re.fullmatch(r"[\w-]+", str(inputs.get("path", ""))):
        yield "unpacks an artifact over the checkout"


def _runs_the_pull_request(job: dict[str, Any]) -> bool:
    """Whether any of its code can be the pull request's: every checkout but that of the base's commit."""
    checkouts = [step for step in job["steps"] if str(step.get("uses", "")).startswith("actions/checkout@")]
    return any(step.get("with", {}).get("ref") != BASE or "repository" in step["with"] for step in checkouts)


def commands(script: str) -> Iterator[str]:
    """The lines of a shell script that call this project's programs."""
    for line in script.replace("\\\n", "").splitlines():
        if match := re.search(r"(?:\./rwi|(?:\.venv/bin/)?python3? -m) [^#|]*", line):
            yield re.sub(r"\$\(\(.*?\)\)", "1", match[0])


def scripts() -> Iterator[tuple[str, str]]:
    """What CI runs: each with the name of its file."""
    yield ".ci/run", (ROOT / ".ci/run").read_text(encoding="utf-8")
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from ((path.name, step["run"]) for step in job["steps"] if "run" in step)


def test_commands_of_ci_are_ones_that_there_are() -> None:
    """As the documents' are: options, keys, stacks and modules, by the same parser."""
    found = [(name, line) for name, script in scripts() for line in commands(script)]
    assert {".ci/run", "measure.yml", "preview.yml"} == {name for name, _ in found}

    assert [] == [f"{name}: {line}: {problem}" for name, line in found for problem in problems(line)]


@pytest.mark.parametrize(
    "line", ["./rwi tset", "./rwi check --fast", "python3 -m cli.tires report", "./rwi test tests"]
)
def test_a_command_that_there_is_not_is_seen(line: str) -> None:
    """The rule above is not vacuous."""
    [command] = commands(f"within 3 {line} || exit 1")

    assert problems(command)


def _text(part: Any) -> str:
    return yaml.safe_dump(part, width=10**6)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_job_with_the_pull_request_s_code_has_a_secret_or_may_write(path: Path) -> None:
    """And the one that may write runs the base's code alone."""
    text = path.read_text(encoding="utf-8")

    assert [] == violations(yaml.safe_load(text))
    assert [] == [line for line in text.splitlines() if " uses: " in line and "# v" not in line]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_workflow_has_a_job_of_each_kind(path: Path) -> None:
    """Otherwise the rules above would hold for want of anything that they are about."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()

    assert {True, False} == {_runs_the_pull_request(job) for job in jobs}


def release_violations(workflow: dict[Any, Any]) -> list[str]:
    """What in it would release something else than a tag of this repository, or let code have the right to."""
    jobs, problems = workflow["jobs"], []
    if workflow.get("on", workflow.get(True)) != {"push": {"tags": ["v*"]}} or workflow.get("permissions") != {}:
        problems.append("it is started by more than tags, or its jobs have permissions by default")
    if jobs["try"]["strategy"]["matrix"]["python"] != [PYTHONS[0], PYTHONS[-1]]:
        problems.append("it tries other Pythons than the oldest and the newest")
    if not {"build", "try"} <= set(jobs["publish"]["needs"]) or jobs["publish"].get("environment") != "release":
        problems.append("it publishes what was not tried, or without a reviewer")
    for name, job in jobs.items():
        problems += [f"{name} {problem}" for step in job["steps"] for problem in _step_violations(step)]
        if job.get("permissions") != (MAY.get(name) or READ_ONLY):
            problems.append(f"{name} may {job.get('permissions')}")
        runs = [step["run"] for step in job["steps"] if "run" in step]
        if name in MAY and (any("checkout" in _text(step) for step in job["steps"]) or set(runs) - {NOTES}):
            problems.append(f"{name} runs code with the right to publish")
        if "secrets" in _text(job):
            problems.append(f"{name} has a secret")
    return problems


MAY = {"publish": {"id-token": "write"}, "notes": {"contents": "write"}}
NOTES = 'gh release create "$GITHUB_REF_NAME" --verify-tag --notes-file built/notes.md built/dist/*'
TAGS = '    tags: ["v*"]\n'
UNSAFE = {
    "a branch releases": (TAGS, "    branches: [main]\n"),
    "a pull request releases": (TAGS, f"{TAGS}  pull_request:\n"),
    "what was built may publish": ("      contents: read\n", "      id-token: write\n"),
    "untried": ("    needs: [build, try]\n", "    needs: [build]\n"),
    "without a reviewer": ("    environment: release\n", ""),
    "another Python": ('["3.9", "3.14"]', '["3.12"]'),
    "an action that can change": (
        "gh-action-pypi-publish@ed0c53931b1dc9bd32cbe73a98c7f6766f8a527e",
        "gh-action-pypi-publish@v1",
    ),
    "what publishes runs code": ("          attestations: true\n", "      - run: python3 built/x.py\n"),
    "a password": ("          attestations: true\n", "          password: ${{ secrets.PYPI }}\n"),
    "the token stays": ("persist-credentials: false", "persist-credentials: true"),
}
"""What a change could do to release.yml, each with the text that it replaces once."""


def test_a_release_is_of_a_tag_and_what_publishes_runs_no_code_of_ours() -> None:
    """And it is tried on the oldest and the newest Python that the wheel promises."""
    text = RELEASE.read_text(encoding="utf-8")

    assert [] == release_violations(yaml.safe_load(text))
    assert [] == [line for line in text.splitlines() if " uses: " in line and "# v" not in line]


HEAD = "${{ github.event.pull_request.head.sha }}"
COMMENTS = f"          ref: {BASE}\n          persist-credentials: false\n      - uses: actions/download-artifact"
CHECKS_OUT_HEAD = f"          ref: {HEAD}\n          path: head\n          persist-credentials: false\n"
MEASURES = "        run: .venv/bin/python -m cli.pull_request measure"
READS = "    permissions:\n      contents: read\n    steps:"
WORSE = {
    "the job with the pull request's code may write": (READS, READS.replace("read", "write")),
    "it may get a token of OpenID": (READS, READS.replace("contents: read", "id-token: write")),
    "it has everything": (READS, "    permissions: write-all\n    steps:"),
    "it says nothing, and the default is all": ("permissions: {}\n", ""),
    "the default is to write": ("permissions: {}\n", "permissions:\n  contents: write\n"),
    "the job that comments runs the head": (COMMENTS, COMMENTS.replace(BASE, HEAD)),
    "the job that comments runs the merge commit": (COMMENTS, COMMENTS.replace(f"ref: {BASE}", "fetch-depth: 1")),
    "the job that comments runs a fork": (COMMENTS, f"          repository: a/fork\n{COMMENTS}"),
    "the job that comments runs what it was given": (
        "      - run: python3 -m cli.pull_request",
        "      - run: sh",
    ),
    "the job that comments posts a text that it was given": ("post measure measured", "post measured/comment.md"),
    "what it was given replaces the base's code": ("path: measured\n      - run", "path: .\n      - run"),
    "a secret in a job's environment": (READS, f"    env:\n      T: ${{{{ secrets.PULUMI_ACCESS_TOKEN }}}}\n{READS}"),
    "a secret in an action's input": (
        CHECKS_OUT_HEAD,
        f"{CHECKS_OUT_HEAD}          token: ${{{{ secrets['PAT'] }}}}\n",
    ),
    "a secret in a command": (MEASURES, MEASURES.replace("run: ", "run: T=${{secrets.X}} ")),
    "the workflow's token in a step": (MEASURES, f"        env:\n          T: ${{{{ github.token }}}}\n{MEASURES}"),
    "a secret for every job": ("jobs:\n", "env:\n  T: ${{ secrets.PULUMI_ACCESS_TOKEN }}\njobs:\n"),
    "the token stays in the checkout": (CHECKS_OUT_HEAD, CHECKS_OUT_HEAD.replace("false", "true")),
    "forks get secrets": ("  pull_request:\n", "  pull_request_target:\n"),
    "another repository's workflow": (
        "  comment:\n",
        "  other:\n    uses: a/b/.github/workflows/x.yml@v1\n  comment:\n",
    ),
    "whatever Pulumi is the newest": (f"          pulumi-version: {PULUMI}\n", "          pulumi-version: latest\n"),
    "an action that can change": ("upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "upload-artifact@v7"),
}
"""What a change could do to measure.yml, each with the text that it replaces once."""


SAMPLES = ROOT / "docs/samples/pull-request"
ACTION = ROOT / "action.yml"
MAY_COMMENT = {"actions": "read", "pull-requests": "write"}


def comment_violations(workflow: dict[Any, Any]) -> list[str]:
    """What in the sample that comments would run a pull request's code, or let it do more than comment."""
    ((name, job),) = workflow["jobs"].items()
    problems = [f"{name} {problem}" for step in job["steps"] for problem in _step_violations(step)]
    if set(workflow.get("on", workflow.get(True)) or ()) != {"workflow_run"} or workflow.get("permissions") != {}:
        problems.append("it is started by more than another workflow, or its jobs have permissions by default")
    if job.get("permissions") != MAY_COMMENT:
        problems.append(f"it may {job.get('permissions')}")
    problems += [f"it runs {step['run']!r}" for step in job["steps"] if not POSTS.fullmatch(step.get("run", POSTED))]
    sources = [step["with"] for step in job["steps"] if str(step.get("uses")).startswith("actions/checkout@")]
    if not all(each.get("repository") and re.fullmatch("[0-9a-f]{40}", str(each.get("ref"))) for each in sources):
        problems.append("it checks out more than one commit of this project")
    return problems


POSTED = "python3 -m cli.pull_request post commits measured"
WORSE_COMMENT = {
    "it runs the head": ("          repository: OWNER/ray-worth-it\n", ""),
    "it runs a branch": (f'          ref: "{"0" * 40}"\n', "          ref: main\n"),
    "it posts a text": (POSTED, "gh pr comment --body-file measured/comment.md"),
    "it may push": ("      pull-requests: write\n", "      pull-requests: write\n      contents: write\n"),
    "the artifact replaces its code": ("          path: measured\n", "          path: .\n"),
    "an action that can change": ("download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "download-artifact@v8"),
}


def test_the_samples_for_other_repositories_are_as_safe() -> None:
    """The one that runs a pull request's code may read alone; the one that comments runs none of it."""
    compare, comment = (
        yaml.safe_load((SAMPLES / name).read_text(encoding="utf-8")) for name in ("compare.yml", "comment.yml")
    )

    assert [] == violations(compare)
    assert [] == comment_violations(comment)


CHANGES = [
    *((RELEASE, release_violations, name, *change) for name, change in UNSAFE.items()),
    *((ROOT / ".github/workflows/measure.yml", violations, name, *change) for name, change in WORSE.items()),
    *((SAMPLES / "comment.yml", comment_violations, name, *change) for name, change in WORSE_COMMENT.items()),
]


@pytest.mark.parametrize(
    ("path", "rule", "old", "new"),
    [pytest.param(path, rule, *change, id=f"{path.stem}: {name}") for path, rule, name, *change in CHANGES],
)
def test_each_change_for_the_worse_is_seen(
    path: Path, rule: Callable[[dict[Any, Any]], list[str]], old: str, new: str
) -> None:
    """The rules above are not vacuous."""
    text = path.read_text(encoding="utf-8")
    assert old in text

    assert rule(yaml.safe_load(text.replace(old, new, 1)))


def test_inputs_of_the_action_reach_no_shell_as_text() -> None:
    """They are variables, whatever a pull request's title or branch holds; and what it uses is pinned."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    reached = {value for step in steps for value in step.get("env", {}).values()}

    assert [] == [problem for step in steps for problem in _step_violations(step)]
    assert [] == [step["run"] for step in steps if "${{" in step.get("run", "")]
    assert not CREDENTIALS.search(_text(action))
    assert {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]} == reached
