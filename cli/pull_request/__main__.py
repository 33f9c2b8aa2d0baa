"""The steps of the pull request workflows, a verb for each; all but `post` run without GitHub.

python -m cli.pull_request preview OUT             preview every stack of a checkout, with no state and no cluster
python -m cli.pull_request diff BASE HEAD          compare two such folders, as a comment on stdout
python -m cli.pull_request measure BASE HEAD OUT   measure two checkouts, interleaved
python -m cli.pull_request compare OUT             compare what `measure` left, as a comment on stdout
python -m cli.pull_request post commits FOLDER     make the comment of FOLDER/commits.json, and keep it
python -m cli.pull_request post WHAT FOLDER        make the comment again from what preview (FOLDER/base, FOLDER/head)
                                                     or measure left, and keep it on the workflow's pull request

What may write to the pull request reads data alone: a text that its code made would be posted in the workflow's name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.pull_request.comment import measure_comment, preview_comment
from cli.pull_request.commits import commits_comment
from cli.pull_request.github import keep_comment
from cli.pull_request.preview import Preview, read_preview
from cli.setup.project import ROOT, ToolError, capture, run_main, say, stack_name
from compare import commits
from compare.measurement import CompareError
from compare.schema import Comparison

STACK = "local"


def preview(out: Path, project: Path = ROOT) -> int:
    """Write OUT/<stack>.json for each stack file of a checkout. If a preview fails, the file contains its error. Return
    the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted((project / "stacks").glob("Pulumi.*.yaml")):
        stack = stack_name(file)
        say(f"preview of {stack}")
        (out / f"{stack}.json").write_text(_preview(stack, file, project.resolve()), encoding="utf-8")
    return 0


def _preview(stack: str, settings: Path, project: Path) -> str:
    """Return pulumi's preview of a stack against an empty state, as JSON. It runs in a temporary backend, with a copy
    of the stack file, because pulumi may write to the file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / settings.name
        copy.write_text(settings.read_text(encoding="utf-8"), encoding="utf-8")
        (Path(folder) / "Pulumi.yaml").write_text(_without_config_folder(project), encoding="utf-8")
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PULUMI_ACCESS_TOKEN"},
            "PATH": os.pathsep.join([str(project / ".venv/bin"), os.environ.get("PATH", "")]),
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "nothing is kept",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        init = capture(
            ["pulumi", "stack", "init", stack, "--no-select", "--non-interactive"], Path(folder), environment
        )
        command = ["pulumi", "preview", "--json", "--non-interactive", "--stack", stack, "--config-file", str(copy)]
        done = capture(command, project, environment) if init.returncode == 0 else init
    text = done.stdout.replace(str(project), ".")
    if done.returncode != 0 and not _has_error(text):
        failed = {
            "severity": "error",
            "message": (done.stderr or done.stdout).replace(str(project), ".").strip()[-4000:],
        }
        return json.dumps({"steps": [], "diagnostics": [failed]})
    return text


def _without_config_folder(project: Path) -> str:
    lines = (project / "Pulumi.yaml").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("stackConfigDir:")) + "\n"


def _has_error(text: str) -> bool:
    try:
        return any(item["severity"] == "error" for item in json.loads(text).get("diagnostics") or [])
    except (ValueError, AttributeError, KeyError, TypeError):
        return False


def diff(base: Path, head: Path, whole: Path | None) -> int:
    """Print the comment on the difference of the previews, and write a version without a length limit to `whole`.
    Return the exit status."""
    before, after = _previews(base, head)
    if whole:
        whole.write_text(preview_comment(before, after, limit_bytes=sys.maxsize), encoding="utf-8")
    print(preview_comment(before, after), end="")
    return 0


def _previews(base: Path, head: Path) -> tuple[dict[str, Preview], dict[str, Preview]]:
    """Return the previews of base and head, each by stack. Raise ToolError if the head has no previews."""
    before, after = (
        {file.stem: read_preview(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
        for folder in (base, head)
    )
    if not after:
        raise ToolError(f"{head} holds no preview: `python -m cli.pull_request preview {head}`")
    return before, after


def measure(base: Path, head: Path, out: Path, repeats: int) -> int:
    """Measure both checkouts, one repeat of each at a time, with the order swapped in every second repeat. Return the
    exit status.

    A repeat is added by raising the setting `repeats`, which measures no earlier repeat again. So base and head take
    turns on the same machine.
    """
    out.mkdir(parents=True, exist_ok=True)
    failed: dict[str, int] = {}
    for repeat in range(1, repeats + 1):
        sides = [("base", base), ("head", head)]
        for name, checkout in sides if repeat % 2 else reversed(sides):
            if name not in failed and (code := _rwi(checkout, "up", repeat)) != 0:
                failed[name] = code
    for name, checkout in (("base", base), ("head", head)):
        if name not in failed:
            shown = capture(["./rwi", "outputs", "--stack", STACK, "--json"], checkout)
            (out / f"{name}.json").write_text(shown.stdout, encoding="utf-8")
    for name, code in failed.items():
        (out / f"{name}.txt").write_text(f"`./rwi up` of the {name} ended with status {code}: see the workflow's log\n")
    return 1 if "head" in failed else 0


def _rwi(checkout: Path, verb: str, repeats: int) -> int:
    command = ["./rwi", verb, "--stack", STACK, "--set", f"repeats={repeats}"]
    return subprocess.run(command, cwd=checkout, check=False).returncode


def compare(out: Path) -> int:
    """Print the comment on the measurements of base and head, and return the exit status."""
    print(_measured(out), end="")
    return 0


def _measured(out: Path) -> str:
    sides: list[Comparison | None] = []
    why = []
    for name in ("base", "head"):
        try:
            sides.append(Comparison.from_json((out / f"{name}.json").read_text(encoding="utf-8")))
        except (OSError, CompareError) as error:
            sides.append(None)
            error_file = out / f"{name}.txt"
            why.append(error_file.read_text(encoding="utf-8") if error_file.is_file() else f"{name}: {error}")
    return measure_comment(sides[0], sides[1], "\n".join(why))


def post(what: str, folder: Path) -> int:
    """Write the comment on the results in `folder` to the pull request, and return the exit status."""
    texts = {
        "preview": lambda: preview_comment(*_previews(folder / "base", folder / "head")),
        "measure": lambda: _measured(folder),
        "commits": lambda: _commits(folder / commits.NAME),
    }
    text = texts[what]()
    say(f"comment {keep_comment(os.environ, text)}")
    return 0


def _commits(path: Path) -> str:
    """Return the comment on a comparison of commits from a file that anybody may have written. Raise ToolError if the
    file is not valid."""
    try:
        with path.open("rb") as file:
            text = file.read(commits.LONGEST_BYTES + 1).decode(errors="replace")
        return commits_comment(commits.CommitComparison.from_json(text))
    except (OSError, commits.CommitsError) as error:
        raise ToolError(f"{path}: {error}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb that the arguments name, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m cli.pull_request", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    previewing = verbs.add_parser("preview")
    previewing.add_argument("out", type=Path)
    previewing.add_argument("--project", type=Path, default=ROOT)
    comparing = verbs.add_parser("diff")
    comparing.add_argument("base", type=Path)
    comparing.add_argument("head", type=Path)
    comparing.add_argument("--whole", type=Path, help="also write the whole difference, without a comment's limit")
    measuring = verbs.add_parser("measure")
    for name in ("base", "head", "out"):
        measuring.add_argument(name, type=Path)
    measuring.add_argument("--repeats", type=int, default=4)
    verbs.add_parser("compare").add_argument("out", type=Path)
    posting = verbs.add_parser("post")
    posting.add_argument("what", choices=("preview", "measure", "commits"))
    posting.add_argument("folder", type=Path)
    arguments_by_name = vars(parser.parse_args(arguments))
    run: dict[str, Callable[..., int]] = {
        "preview": preview,
        "diff": diff,
        "measure": measure,
        "compare": compare,
        "post": post,
    }
    return run[arguments_by_name.pop("verb")](**arguments_by_name)


if __name__ == "__main__":
    run_main(main)
