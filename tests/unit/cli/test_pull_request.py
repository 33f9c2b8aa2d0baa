"""Comments on pull requests: what differs, nothing else; short enough for GitHub; one comment kept up to date."""

import json
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.pull_request import __main__ as pull_request
from cli.pull_request.comment import LIMIT_BYTES, measure_comment, preview_comment
from cli.pull_request.github import keep_comment
from cli.pull_request.preview import SECRET, UNKNOWN, Difference, PreviewError, difference, read_preview
from cli.setup.project import ToolError
from compare.comparison import compare
from compare.measurement import CompareError
from compare.schema import Comparison
from tests.golden import Wording
from tests.unit.results import make_commits, make_context, make_provenance, make_recipe, make_run
from training.contract.codec import encode

SECRET_VALUE = {SECRET: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:abc"}
SCRIPT = "\n".join(f"line {number}" for number in range(100))


def step(name: str, kind: str = "training:Run", op: str = "create", **inputs: Any) -> dict[str, Any]:
    """A step of a preview, as the engine prints it."""
    urn = f"urn:pulumi:local::ray-worth-it::ray-worth-it:local:Measurement$pulumi-python:{kind}::{name}"
    return {"op": op, "urn": urn, "newState": {"urn": urn, "type": f"pulumi-python:{kind}", "inputs": inputs}}


def preview(*steps: dict[str, Any], errors: tuple[str, ...] = ()) -> str:
    """A preview's JSON."""
    diagnostics = [{"severity": "error", "message": message} for message in errors]
    return json.dumps({"config": {}, "steps": list(steps), "diagnostics": diagnostics, "changeSummary": {}})


def diff(base: str, head: str) -> Difference:
    """What the head changes."""
    return difference(read_preview(base), read_preview(head))


def test_equal_previews_have_no_difference() -> None:
    """However the engine ordered keys, resources and secrets' salts."""
    one = preview(step("a", x=1, y={"p": 1, "q": 2}), step("b", s=SECRET_VALUE))
    two = preview(step("b", s=SECRET_VALUE | {"ciphertext": "v1:other"}), step("a", y={"q": 2, "p": 1}, x=1))

    assert not diff(one, two)


def test_added_removed_and_changed_resources_are_told_apart() -> None:
    """Each with its properties; what did not change is not there."""
    found = diff(preview(step("a", x=1, y=2), step("gone", x=1)), preview(step("a", x=1, y=3), step("new", x=1)))

    assert {"pulumi-python:training:Run new": ["+ x: 1"]} == found.added
    assert {"pulumi-python:training:Run gone": ["- x: 1"]} == found.removed
    assert {"pulumi-python:training:Run a": ["- y: 2", "+ y: 3"]} == found.changed


@pytest.mark.parametrize(
    ("base", "head", "lines"),
    [
        pytest.param(
            {"recipe": '{"epochs": 3, "workers": 2}', "spec": {"containers": [{"image": "x:1", "args": ["--a"]}]}},
            {
                "recipe": '{"epochs": 5, "workers": 2}',
                "spec": {"containers": [{"image": "x:2", "args": ["--a", "--b"]}]},
            },
            [
                "- recipe.epochs: 3",
                "+ recipe.epochs: 5",
                '- spec.containers[0].image: "x:1"',
                '+ spec.containers[0].image: "x:2"',
                '+ spec.containers[0].args[1]: "--b"',
            ],
            id="named to the leaf, inside objects, lists and texts that are JSON, as that of a pod",
        ),
        pytest.param({"x": 1}, {"x": True}, ["- x: 1", "+ x: true"], id="1 and true are two values to Pulumi"),
        pytest.param({"x": 1}, {"x": "1"}, ["- x: 1", '+ x: "1"'], id="so are 1 and its text"),
        pytest.param(
            {"s": "plain", "u": UNKNOWN},
            {"s": SECRET_VALUE, "u": "x"},
            ['- s: "plain"', '+ s: "[secret]"', '- u: "[computed]"', '+ u: "x"'],
            id="a secret that became one is a change, whose ciphertext is never printed",
        ),
        pytest.param(
            {"s": SCRIPT},
            {"s": SCRIPT.replace("line 50", "new")},
            ["  s:", "  …", "    line 49", "-   line 50", "+   new", "    line 51"],
            id="of a script the lines that changed",
        ),
        pytest.param(
            {"x": "a" * 64},
            {"x": "b" * 64},
            [f'- x: "{12 * "a"}…"', f'+ x: "{12 * "b"}…"'],
            id="of a hash as much as tells it from another",
        ),
    ],
)
def test_what_changed_is_shown_and_nothing_else(base: dict[str, Any], head: dict[str, Any], lines: list[str]) -> None:
    """A line a property, before and after."""
    (shown,) = diff(preview(step("a", **base)), preview(step("a", **head))).changed.values()

    assert lines == shown


def test_a_long_value_is_cut() -> None:
    """With its length."""
    (lines,) = diff(preview(step("a", x="")), preview(step("a", x="y" * 5000))).changed.values()

    assert lines[1].endswith("… (5,002 characters)")
    assert 250 > len(lines[1])


@pytest.mark.parametrize("text", ["", "error: no", "[]", '{"steps": [{}]}'])
def test_what_is_no_preview_is_refused(text: str) -> None:
    """And not taken for one without resources."""
    with pytest.raises(PreviewError, match="no preview"):
        read_preview(text)


def comment(base: dict[str, str], head: dict[str, str], limit_bytes: int = LIMIT_BYTES) -> str:
    """The comment on previews by stack."""
    read = [{stack: read_preview(text) for stack, text in side.items()} for side in (base, head)]
    return preview_comment(read[0], read[1], limit_bytes)


def test_the_comment_says_of_each_stack_what_changes(wording: Wording) -> None:
    """Stacks without a difference in a line, the others collapsed; the marker comes first."""
    same, base, head = preview(step("b", x=1)), preview(step("a", x=1)), preview(step("a", x=2), step("c"))
    text = comment({"ci": same, "local": base, "old": same}, {"ci": same, "local": head, "new": same})

    assert text.startswith("<!-- ray-worth-it: preview -->\n")  # not prose: the marker
    assert ["ci", "old"] == re.findall(r"^- \*\*(\w+)\*\*: ", text, re.MULTILINE)
    assert ["local", "new"] == re.findall("<summary><b>(.*)</b>", text)
    assert "Run a\n-   x: 1\n+   x: 2\n+ " in text  # not prose: a difference
    wording("pull-request", text)


def test_of_what_is_gone_the_name_is_shown_alone() -> None:
    """Its properties can be read in the base."""
    text = comment({"local": preview(step("a", x=1))}, {"local": preview()})
    assert "\n- pulumi-python:training:Run a " in text
    assert "x: 1" not in text


def test_a_failing_preview_is_shown_with_its_error(wording: Wording) -> None:
    """Not as an empty stack; and said when the base's fails too."""
    good, bad = preview(step("a")), preview(errors=("workers = 0\n  pulumi config set workers 2",))

    other = preview(errors=("workers = -1",))
    shown = {
        "the head's": comment({"local": good}, {"local": bad}),
        "another than the base's": comment({"local": other}, {"local": bad}),
        "that of the base": comment({"local": bad}, {"local": bad}),
        "the base's": comment({"local": bad}, {"local": good}),
    }
    assert "! workers = 0\n!   pulumi config set workers 2" in shown["the head's"]  # not prose: an error
    assert [True, True, False, True] == ["<details>" in text for text in shown.values()]
    for which, text in shown.items():
        wording("pull-request", text.partition("<summary>")[2] or text, which)


@pytest.mark.parametrize("stacks", [1, 4])
@pytest.mark.parametrize("value", ["x" * 100, "é" * 100, "`" * 100])
def test_a_large_difference_fits_and_says_what_is_left_out(stacks: int, value: str) -> None:
    """200 resources of 20 properties a stack, 6 times what fits: each is shown, none takes the room of another."""
    steps = [step(f"r{number}", **{f"p{index}": value for index in range(20)}) for number in range(200)]
    large, empty = preview(*steps), preview()
    names = [f"stack{number}" for number in range(stacks)]
    text = comment(dict.fromkeys(names, empty), dict.fromkeys(names, large))

    assert LIMIT_BYTES >= len(text.encode()) > 0.9 * LIMIT_BYTES
    assert stacks == sum(" (new)\n" in part for part in text.split("<details>"))
    assert stacks == text.count("<details>") == text.count("</details>") == text.count("more not shown")
    assert [] == [block for block in re.findall(r"^(`{3,})diff\n.*?\n\1$", text, re.S | re.M) if not block]
    left = [int(number) for number in re.findall(r"^(\d+) more not shown", text, re.M)]
    shown = text.count(" (new)\n")
    assert 200 * stacks == sum(left) + shown


def test_one_large_resource_is_cut_and_not_left_out() -> None:
    """A difference of one thing is never shown as nothing."""
    large = preview(step("a", **{f"p{index}": "x" * 100 for index in range(2000)}))
    text = comment({"local": preview()}, {"local": large})

    assert re.search(r"Run a .*\n\+\s+p0:", text)
    assert re.search(r"\n  ….*\n```", text)
    assert LIMIT_BYTES >= len(text.encode())


def test_backticks_in_values_do_not_end_the_block() -> None:
    """The fence is longer than any run of them."""
    text = comment({"local": preview(step("a", x=""))}, {"local": preview(step("a", x="```` ``` </details>"))})

    assert "\n`````diff\n" in text


@cache
def measured(ray_step_seconds: float = 0.053, repeats: int = 4, code_hash: str = "", ray: str = "") -> Comparison:
    """A comparison of that pace, of that code and version of Ray."""
    paces = {"baseline": 0.1, "native": 0.052, "ray": ray_step_seconds}
    changed = {"code_hash": code_hash, "versions": {"ray": ray} if ray else None}
    made_with = make_provenance(**{name: value for name, value in changed.items() if value})
    runs = [
        make_run(arm, repeat, provenance=made_with, step_seconds_mean=pace * (1 + 0.01 * (repeat % 2)))
        for repeat in range(1, repeats + 1)
        for arm, pace in paces.items()
    ]
    return compare(runs, make_context(make_recipe(), repeats=repeats))


def test_the_measurement_comment_has_every_change_with_its_interval(wording: Wording) -> None:
    """What is decided in the headline; what the two were made with; both verdicts. Only three values have a word."""
    text = measure_comment(measured(0.07), measured(0.05, code_hash="f" * 64))

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    (speedup,) = [row for row in rows if row[0] == "speedup"]
    assert "1.43×" == speedup[2].split()[0]
    assert ["+40.0", "%"] == speedup[4].split()[:2]
    assert ["speedup", "end-to-end speedup"] == [row[0] for row in rows if row[5] == "**faster**"]
    assert "ccccccc -> fffffff" in text
    wording("pull-request", re.sub(r"^- (base|head): .*", r"- \1: its verdict", text, flags=re.MULTILINE))
    assert 3 == text.count("- base: ") + text.count("- head: ") + text.count("interleaved, 4 repeats")


def test_no_change_is_said_in_the_headline() -> None:
    """And not left to be read from a table; how it is decided stands below."""
    text = measure_comment(measured(), measured())

    assert "**No measurable difference.**" in text
    assert "speedup, end-to-end speedup" in text


def test_fewer_than_four_repeats_decide_nothing() -> None:
    """However far apart the two are."""
    text = measure_comment(measured(0.07, repeats=3), measured(0.05, repeats=3))

    assert "**Not decided.**" in text
    assert re.search(r"\b3 repeats\b.*\b4\b", text)


def test_a_side_that_could_not_be_measured_is_said(wording: Wording) -> None:
    """With why."""
    text = measure_comment(measured(), None, "it broke")

    assert "it broke" in text
    wording("pull-request", text)


def test_what_the_pull_request_made_is_no_markup() -> None:
    """A version string can't mention people or close the details."""
    text = measure_comment(measured(), measured(ray="@everyone </details> <b>"))

    assert "@everyone" not in text
    assert "\\</details>" in text


EVIL = (
    "x</b></summary></details> @org/maintainers [run](https:&#47;&#47;evil.example) https://evil.example"
    " www.evil.example\n# A org/x#1 GH-1 ~~no~~ $x$ \u202eback"
)
MARKUP = re.compile(r"(?<!\\)[<\[`&~$]|[#@](?!\u200b)|://(?!\u200b)|www\.|GH-|[\n\u202e]")
"""What of it GitHub would make something of, in text."""


def test_a_stack_s_name_is_no_markup() -> None:
    """It is the name of a file, and stands in a tag, where nothing but letters may."""
    made = preview(step("a", x=1))
    quiet, loud = comment({EVIL: made}, {EVIL: made}), comment({EVIL: preview()}, {EVIL: made})

    (line,) = [line for line in quiet.splitlines() if line.startswith("- **")]
    (heading,) = [line for line in loud.splitlines() if line.startswith("<details>")]
    assert not MARKUP.search(line.removeprefix("- **"))
    assert re.fullmatch(r"<details><summary><b>[\w.?-]+</b>: [\w ,]+</summary>", heading)
    assert not MARKUP.search(heading.partition("<b>")[2].partition("</b>")[0])
    assert 1 == loud.count("<details>") == loud.count("</details>")


def test_an_error_that_both_sides_have_is_no_markup() -> None:
    """The pull request may have written both."""
    failing = preview(errors=(EVIL,))
    (line,) = [line for line in comment({"a": failing}, {"a": failing}).splitlines() if line.startswith("- **a**")]

    assert not MARKUP.search(line)


def texts(part: Any) -> Iterator[tuple[Any, Any]]:
    """Where a text stands in what was read from JSON: its holder, and its key or index there."""
    for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
        if isinstance(value, dict | list):
            yield from texts(value)
        elif isinstance(value, str):
            yield part, key


def test_nothing_in_a_measurement_is_markup() -> None:
    """A unit, a verdict, a processor, the name of an arm: whatever text a comparison may have."""
    head, base = json.loads(measured(0.05).to_json()), measured()
    head["arms"][EVIL] = head["arms"].pop("native")

    def replaced(places: list[tuple[Any, Any]]) -> int:
        """How many of these texts may be anything, and are so now; the others are those of a few that are allowed."""
        before = [holder[key] for holder, key in places]
        for holder, key in places:
            holder[key] = EVIL
        try:
            measure_comment(base, Comparison.from_json(json.dumps(head)))
        except (CompareError, KeyError, ValueError):
            for (holder, key), text in zip(places, before, strict=True):
                holder[key] = text
            half = len(places) // 2
            return replaced(places[:half]) + replaced(places[half:]) if half else 0
        return len(places)

    count = replaced(list(texts(head)))
    text = measure_comment(base, Comparison.from_json(json.dumps(head)))

    assert count > 20
    assert "evil" in text
    for part in re.split(r"</?(?:details|summary)>|<!--.*?-->|^##? |Stack `local`|\n", text, flags=re.MULTILINE):
        assert not MARKUP.search(part)


GH = """
import json, os, sys
assert "api" == sys.argv[1] and "GITHUB_TOKEN" in os.environ
folder = os.path.dirname(__file__)
open(folder + "/calls.txt", "a").write(" ".join(sys.argv[2:5]) + chr(10))
if os.environ["GITHUB_TOKEN"] == "bad":
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
path = folder + "/comments.json"
comments = json.load(open(path))
if sys.argv[2] == "--paginate":
    assert [".[] | {id, login: .user.login, body}"] == sys.argv[5:]
    for comment in comments:
        print(json.dumps(comment))
elif sys.argv[3] == "GET":
    assert ["--raw-field", "head=fork:mine", "--jq", ".[] | {number, head}"] == sys.argv[5:]
    print(open(folder + "/pulls.json").read())
else:
    assert "--raw-field" == sys.argv[5] and sys.argv[6].startswith("body=")
    body = sys.argv[6].partition("=")[2]
    if sys.argv[3] == "POST":
        comments.append({"id": len(comments), "login": "github-actions[bot]", "body": body})
    else:
        comments[int(sys.argv[4].rpartition("/")[2])]["body"] = body
    json.dump(comments, open(path, "w"))
"""
"""As much of `gh api` as is used: with comments in a file, and a line for each call in another."""


class GitHub:
    """The pull request o/r 5 behind a `gh` of this test's on PATH, and the environment of a workflow run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "good", "PULL_REQUEST": "5"}
        (folder / "gh.py").write_text(GH, encoding="utf-8")
        (folder / "gh").write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{folder}/gh.py" "$@"\n', encoding="utf-8")
        (folder / "gh").chmod(0o755)
        others = [{"id": n, "login": "someone", "body": "<!-- m -->\nquoted"} for n in range(2)]
        (folder / "comments.json").write_text(json.dumps(others), encoding="utf-8")

    def bodies(self) -> list[str]:
        """All comments, those of others first."""
        return [comment["body"] for comment in json.loads((self.folder / "comments.json").read_text(encoding="utf-8"))]

    def calls(self) -> list[str]:
        """The first words of each call."""
        return (self.folder / "calls.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    """A pull request with two comments of others that have our marker."""
    folder = tmp_path / "gh"
    folder.mkdir()
    made = GitHub(folder)
    for name, value in {"PATH": f"{folder}:{os.environ['PATH']}", **made.environment}.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("what", ["preview", "measure", "commits"])
def test_what_is_posted_is_made_of_data_by_the_code_that_posts_it(tmp_path: Path, github: GitHub, what: str) -> None:
    """A text that the pull request's code left beside the data is no comment."""
    (tmp_path / "comment.md").write_text("<!-- m -->\nApproved by the maintainers")
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "local.json").write_text(preview(step("a", x=side)))
        (tmp_path / f"{side}.json").write_text(measured().to_json())
    (tmp_path / "commits.json").write_text(json.dumps(encode(make_commits(baseline=1.3))))

    assert 0 == pull_request.main(["post", what, str(tmp_path)])

    (posted,) = github.bodies()[2:]
    assert posted.startswith(f"<!-- ray-worth-it: {what} -->\n")  # not prose: the marker
    assert "Approved" not in posted


def test_one_comment_of_each_workflow_is_kept_up_to_date(github: GitHub) -> None:
    """Made, found again behind others, updated, left alone; what others wrote is never touched."""
    texts = ["<!-- m -->\none", "<!-- other -->\nthree", "<!-- m -->\n@two", "<!-- m -->\n@two\n"]
    done = [keep_comment(github.environment, text) for text in texts]

    assert ["made", "made", "updated", "unchanged"] == done
    assert ["<!-- m -->\nquoted"] * 2 == github.bodies()[:2]  # not prose: of this test
    assert ["<!-- m -->\n@two", "<!-- other -->\nthree"] == github.bodies()[2:]  # not prose: of this test
    assert "--method PATCH repos/o/r/issues/comments/2" in github.calls()
    assert "--paginate repos/o/r/issues/5/comments?per_page=100 --jq" in github.calls()


def test_the_longest_comment_fits_into_a_call(github: GitHub) -> None:
    """As one argument of a program: Linux allows 131,071 bytes of one."""
    text = "<!-- m -->\n" + "x" * (LIMIT_BYTES - 11)
    keep_comment(github.environment, text)

    assert text == github.bodies()[-1]


def test_a_refusal_is_one_message(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what GitHub said of it; a text without a marker is not posted, and a machine may lack gh."""
    with pytest.raises(ToolError, match="no marker"):
        keep_comment(github.environment, "hello")
    monkeypatch.setenv("GITHUB_TOKEN", "bad")
    with pytest.raises(ToolError, match=r"repos/o/r/issues/5/comments.*not accessible.*403"):
        keep_comment(github.environment, "<!-- m -->")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="gh"):
        keep_comment(github.environment, "<!-- m -->")


def test_the_pull_request_is_the_workflows(github: GitHub, tmp_path: Path) -> None:
    """From the event; without one the message names what is missing."""
    event = tmp_path / "event.json"
    event.write_text('{"pull_request": {"number": 12}}')
    keep_comment({"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "t", "GITHUB_EVENT_PATH": str(event)}, "<!-- m -->")

    assert "--method POST repos/o/r/issues/12/comments" == github.calls()[-1]
    with pytest.raises(ToolError, match="set GITHUB_TOKEN, PULL_REQUEST"):
        keep_comment({"GITHUB_REPOSITORY": "o/r"}, "<!-- m -->")


def test_the_pull_request_of_another_run_is_the_one_with_its_commit(github: GitHub, tmp_path: Path) -> None:
    """Whatever the artifact says: by the event's owner, branch and commit, as of a fork; none of an earlier commit."""
    run = {"head_repository": {"owner": {"login": "fork"}}, "head_branch": "mine", "head_sha": "c" * 40}
    event = tmp_path / "event.json"
    variables = {"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "t", "GITHUB_EVENT_PATH": str(event)}
    event.write_text(json.dumps({"workflow_run": run}))
    (github.folder / "pulls.json").write_text(
        "\n".join(json.dumps({"number": n, "head": {"sha": c * 40}}) for n, c in ((7, "a"), (8, "c")))
    )
    keep_comment(variables, "<!-- m -->")

    assert "--method GET repos/o/r/pulls" == github.calls()[0]
    assert "--method POST repos/o/r/issues/8/comments" == github.calls()[-1]
    event.write_text(json.dumps({"workflow_run": {**run, "head_sha": "b" * 40}}))
    with pytest.raises(ToolError, match="b" * 12):
        keep_comment(variables, "<!-- m -->")


@pytest.fixture
def checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two checkouts whose rwi writes down that it was called; gives the calls."""
    calls: list[str] = []

    def rwi(checkout: Path, verb: str, repeats: int) -> int:
        calls.append(f"{checkout.name} {verb} {repeats}")
        return int((checkout / "broken").exists())

    monkeypatch.setattr(pull_request, "_rwi", rwi)
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "rwi"
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    return calls


def test_base_and_head_take_turns(tmp_path: Path, checkouts: list[str]) -> None:
    """A repeat more each time, the first to go alternating, so that a machine that slows down favours neither."""
    code = pull_request.measure(tmp_path / "base", tmp_path / "head", tmp_path / "out", 3)

    assert 0 == code
    assert ["base up 1", "head up 1", "head up 2", "base up 2", "base up 3", "head up 3"] == checkouts
    assert ["outputs", "--stack", "local", "--json"] == (tmp_path / "out/head.json").read_text().split()[1:]


def test_a_base_that_fails_does_not_fail_the_head(tmp_path: Path, checkouts: list[str], wording: Wording) -> None:
    """It is not tried again, the head is measured, and the comment says why there is no comparison."""
    (tmp_path / "base/broken").touch()
    code = pull_request.measure(tmp_path / "base", tmp_path / "head", tmp_path / "out", 2)

    assert 0 == code
    assert ["base up 1", "head up 1", "head up 2"] == checkouts
    wording("pull-request", (tmp_path / "out/base.txt").read_text())


def test_compare_prints_the_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the files that `measure` leaves."""
    (tmp_path / "head.json").write_text(measured().to_json())
    (tmp_path / "base.txt").write_text("the base broke")
    pull_request.main(["compare", str(tmp_path)])
    alone = capsys.readouterr().out
    (tmp_path / "base.json").write_text(measured().to_json())
    pull_request.main(["compare", str(tmp_path)])

    assert "No comparison" in alone
    assert "the base broke" in alone
    assert "No measurable difference" in capsys.readouterr().out


def test_diff_prints_the_comment_and_writes_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders with a file a stack; the whole has no limit, and a comment GitHub's, 65,536 characters."""
    for side, number in (("base", 0), ("head", 3000)):
        (tmp_path / side).mkdir()
        steps = [step(f"r{index}", x="y" * 50) for index in range(number)]
        (tmp_path / side / "local.json").write_text(preview(*steps))
    whole = tmp_path / "whole.md"
    pull_request.main(["diff", str(tmp_path / "base"), str(tmp_path / "head"), "--whole", str(whole)])

    assert 65_536 > LIMIT_BYTES >= len(capsys.readouterr().out.encode())
    assert 3000 == whole.read_text().count(" (new)\n")
