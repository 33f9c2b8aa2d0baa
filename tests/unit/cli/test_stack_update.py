"""What an update does with its runs: from pulumi's log of events to words beforehand, and to the lines at its end."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cli.stack.preview_words import words
from cli.stack.remaining import Remaining, in_words
from cli.stack.update import EventLog, Update, ending, side_of
from tests.golden import Wording
from training.contract.recipe import texts
from training.machine.machine_lock import WAITS

RUN, RESULT, JOB = (
    "pulumi-python:dynamic/training:Run",
    "pulumi-python:dynamic/cluster:JobResult",
    "kubernetes:batch/v1:Job",
)
CANCELLING = {"stdoutEvent": {"message": "^C received; cancelling. If you would like …", "color": "always"}}
PREVIEWED = {"summaryEvent": {"isPreview": True, "resourceChanges": {}}}


def step(kind: str, name: str, op: str, *, planning: bool = False, of: str = RUN, **recipes: Any) -> dict[str, Any]:
    """An event of a resource; `old` and `new` are the recipes of a run."""
    inputs = {
        when: {"custom": True, "inputs": {"recipe": texts(recipe)} if recipe else {}}
        for when, recipe in ({"old": None, "new": None} | recipes).items()
    }
    if op == "create":
        inputs["old"] = {}
    metadata = {"op": op, "urn": f"urn:pulumi:local::p::{of}::{name}", "type": of, **inputs}
    return {kind: {"metadata": metadata, **({"planning": True} if planning else {})}}


def planned(*runs: str, op: str = "create", **recipes: Any) -> list[dict[str, Any]]:
    """The preview's events of these runs."""
    return [step("resourcePreEvent", run, op, planning=True, **recipes) for run in runs]


def began(run: str, op: str = "create", **more: Any) -> dict[str, Any]:
    """It is being made."""
    return step("resourcePreEvent", run, op, **more)


def ended(run: str, op: str = "create", **more: Any) -> dict[str, Any]:
    """It was made, and is in the state."""
    return step("resOutputsEvent", run, op, **more)


def error(text: str) -> dict[str, Any]:
    """What pulumi says of an error."""
    return {"diagnosticEvent": {"message": text, "prefix": "error: ", "severity": "error"}}


def update_after(events: Iterable[dict[str, Any]]) -> Update:
    """What is known after these events."""
    update = Update()
    for event in events:
        update.take(event)
    return update


FIRST = [*planned("baseline-1", "ray-1", "ray-2"), PREVIEWED]
WAITING = [*FIRST, began("ray-1"), {"diagnosticEvent": {"message": f"ray-1: {WAITS} (process 1)", "severity": "info"}}]


def test_runs_are_counted_from_preview_to_end() -> None:
    """Which are to be made, which goes on, which are kept."""
    update = update_after([*FIRST, began("baseline-1"), ended("baseline-1"), began("ray-1")])

    assert (["baseline-1", "ray-1", "ray-2"], "ray-1", 1) == (update.to_make, update.current, update.kept_runs)


def test_runs_that_were_there_are_kept_though_the_update_never_came_to_them() -> None:
    """The engine meets resources in their order: after a stop the rest is as it was."""
    update = update_after(
        [*planned("baseline-1"), *planned("ray-1", "ray-2", op="same"), PREVIEWED, began("baseline-1")]
    )

    assert 2 == update.kept_runs


def test_a_replaced_run_counts_once_made_anew() -> None:
    """Its three operations are one run, and what is deleted afterwards is none."""
    of_ray_1 = [planned("ray-1", op=op)[0] for op in ("create-replacement", "replace", "delete-replaced")]
    then = [ended("ray-1", "delete-replaced"), began("ray-1", "replace"), ended("ray-1", "replace")]
    update = update_after([*of_ray_1, *planned("ray-9", op="delete"), PREVIEWED, *then])
    before = update.kept_runs
    for event in (began("ray-1", "create-replacement"), ended("ray-1", "create-replacement"), ended("ray-9", "delete")):
        update.take(event)

    assert (["ray-1"], 0, 1, {"ray-1"}) == (update.to_make, before, update.kept_runs, update.replaced)
    assert list(update.planned) == ["ray-1"]


def test_a_run_of_a_cluster_is_kept_with_its_result() -> None:
    """Its Job begins it; other resources are no runs."""
    update = update_after(
        [
            *planned("ray-1-result", of=RESULT),
            *planned("ray-1", of=JOB),
            *planned("minikube", of="command:local:Command"),
            PREVIEWED,
            began("ray-1", of=JOB),
        ]
    )
    before = update.kept_runs
    update.take(ended("ray-1", of=JOB))
    update.take(began("ray-1-result", of=RESULT))
    update.take(ended("ray-1-result", of=RESULT))

    assert (0, 1, 1) == (before, update.kept_runs, update.others)
    assert list(update.planned) == ["ray-1"]


@pytest.mark.parametrize(
    ("events", "status", "expected"),
    [
        ([*FIRST, began("baseline-1"), CANCELLING, ended("baseline-1")], 255, ("Stopped", "1 of 3")),
        ([*FIRST, began("baseline-1"), CANCELLING, error("update failed")], 255, ("Stopped", "baseline-1", "0 of 3")),
        ([*FIRST, began("baseline-1")], 137, ("signal 9", "baseline-1", "0 of 3")),
        ([*WAITING, CANCELLING, error("update failed")], 255, ("Stopped", "ray-1 had not", "0 of 3")),
        ([CANCELLING], 255, ("Stopped", "No run")),
        ([], 130, ("Stopped", "No run")),
        ([error("no such thing")], 255, ("no such thing", "No run")),
        ([], 1, ("failed", "No run")),
    ],
)
def test_an_end_says_what_happened_and_what_is_kept(
    events: list[dict[str, Any]], status: int, expected: tuple[str, ...]
) -> None:
    """Whoever stopped or killed it, and however far it came; with the lines to type, and no old number."""
    lines = ending(update_after(events), status, "./rwi up --set repeats=3", "./rwi outputs")

    assert all(text in "\n".join(lines) for text in expected)
    assert "`./rwi up --set repeats=3`" in "\n".join(lines)
    assert "`./rwi outputs`" in lines[-1]


@pytest.mark.parametrize(
    ("events", "named"),
    [([], "no run"), (FIRST, "no further"), ([*FIRST, began("ray-1")], "ray-1"), (WAITING, "ray-1 only")],
)
def test_ctrl_c_is_answered_with_what_happens_and_that_results_are_kept(
    events: list[dict[str, Any]], named: str, wording: Wording
) -> None:
    """While the preview runs, between runs and in one; and a second, which loses it."""
    update = update_after(events)
    first = update.stop(1)
    is_stopped = update.is_stopped
    second = update.stop(2)

    assert is_stopped
    assert named in first
    assert ("ray-1" in second) == (named == "ray-1")
    wording("stack", f"{first}\n{second}")


@pytest.mark.parametrize("events", [[CANCELLING], [*FIRST, CANCELLING]])
def test_repeats_that_the_same_command_completed_are_no_older_measurement(
    events: list[dict[str, Any]], wording: Wording
) -> None:
    """With `repeats auto` each repeat is an update, and the one that was stopped need not be the first."""
    wording("stack", "\n".join(ending(update_after(events), 255, "./rwi up", "./rwi outputs", 6)))


def test_without_an_earlier_measurement_none_is_named() -> None:
    """Of a first update that was stopped."""
    lines = ending(update_after([*FIRST, CANCELLING]), 255, "./rwi up", "")

    assert not any("outputs" in line for line in lines)
    assert "0 of 3" in lines[-1]


FAILED = {"resOpFailedEvent": {"metadata": began("ray-1")["resourcePreEvent"]["metadata"]}}


def test_the_run_that_failed_is_named_with_its_cause_and_log() -> None:
    """Of all errors that of the run; without the exception's class."""
    message = (
        "infra.places.local.run.RunFailedError: ray-1 failed: it ended with exit code 3\n"
        "The end of its log, runs/local/ray-1-x/log.txt:\n  | told to fail\n"
    )
    update = update_after([*FIRST, error("something before"), error(message), FAILED, error("update failed\n")])
    lines = ending(update, 255, "./rwi up", "")

    assert "ray-1" == update.failed
    assert all(text in lines[0] for text in ("ray-1", "code 3", "runs/local/ray-1-x/log.txt"))
    assert "RunFailedError" not in lines[0]
    assert "something before" not in lines[0]


def test_of_a_traceback_the_last_line_is_the_cause() -> None:
    """And where it names no run, the run that failed stands before it."""
    update = update_after([*FIRST, error("Traceback (most recent call last):\n  File x\nValueError: abc"), FAILED])

    first = ending(update, 255, "./rwi up", "")[0]

    assert first.endswith("ray-1: ValueError: abc")
    assert "Traceback" not in first


def test_a_log_is_read_once_and_again_when_a_phase_begins(tmp_path: Path) -> None:
    """pulumi empties it before the update; a half-written line waits for its end, and debugging is nobody's news."""
    path = tmp_path / "events.json"
    log = EventLog(path)
    absent = list(log.read())
    debugging = {"diagnosticEvent": {"message": "x", "severity": "debug"}}
    path.write_text(f'{json.dumps(PREVIEWED)}\n{json.dumps(debugging)}\n{{"stdout')
    first, again = list(log.read()), list(log.read())
    path.write_text(json.dumps(CANCELLING) + "\n")

    assert ([], [PREVIEWED], []) == (absent, first, again)
    assert [CANCELLING] == list(log.read())
    path.write_text(f"{json.dumps(PREVIEWED)}\n{json.dumps(CANCELLING)}\n")  # as long as was read and longer at once
    assert [PREVIEWED, CANCELLING] == list(log.read())


KNOWN = {"baseline": 10.0, "ray": 30.0}


def test_the_time_left_is_learned_from_the_runs_that_ended() -> None:
    """First by what is known from earlier, then by what this update took; what goes on counts for its rest."""
    remaining, update = Remaining(KNOWN), update_after(FIRST)
    at_first = remaining.seconds(update, 0.0)
    update.take(began("baseline-1"))
    remaining.follow(update, 0.0)
    meanwhile = remaining.seconds(update, 4.0)
    update.take(ended("baseline-1"))
    update.take(began("ray-1"))
    remaining.follow(update, 20.0)
    update.take(ended("ray-1"))
    remaining.follow(update, 80.0)

    assert (10 + 30 + 30 + 3 * 2, 6 + 30 + 30 + 3 * 2) == (at_first, meanwhile)
    assert remaining.seconds(update, 80.0) == 60 + 2


def test_of_what_nobody_knows_no_time_is_told() -> None:
    """And of an arm that is new, as long as the others take."""
    assert Remaining({}).seconds(update_after(FIRST), 0.0) is None
    assert Remaining({"baseline": 10.0}).seconds(update_after(FIRST), 0.0) == 3 * 12
    assert ("ray-w1", "ray") == (side_of("ray-w1-2"), side_of("ray-2"))
    assert ("about 5 s", "about 40 s", "about 3 min", "about 2.0 h") == tuple(map(in_words, (1, 41, 170, 7200)))


CHANGED = {"old": {"epochs": 2, "seed": 1, "model": "cnn"}, "new": {"epochs": 3, "seed": 2, "model": "cnn"}}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (FIRST, ("new", "3 runs", "about 75 s")),
        (
            [*planned("baseline-1", op="same"), *planned("ray-1", "ray-2")],
            ("2 runs missing", "1 run kept", "about 65 s"),
        ),
        (planned("baseline-1", "ray-1", op="same"), ("all 2 runs are there",)),
        (
            planned("baseline-1", "ray-1", op="replace", **CHANGED),
            ("epochs 2 → 3, seed 1 → 2:", "2 runs repeated", "results/mine"),
        ),
        (planned("baseline-1", op="replace"), ("versions", "1 run repeated", "results/mine")),
        ([*FIRST, *planned("operator", of="kubernetes:helm.sh/v3:Release")], ("3 runs", "1 other resource")),
        (planned("operator", of="kubernetes:helm.sh/v3:Release"), ()),
    ],
)
def test_a_preview_in_words(events: list[dict[str, Any]], expected: tuple[str, ...]) -> None:
    """How many runs and why, how long, what stays; nothing where there are no runs."""
    text = words(update_after(events), "mine", KNOWN)

    assert all(part in text for part in expected)
    assert bool(text) == bool(expected)


def test_a_preview_tells_no_time_of_an_arm_that_nobody_knows() -> None:
    """What follows says that there is no estimate."""
    assert "about" in words(update_after(FIRST), "mine", KNOWN)
    assert "about" not in words(update_after(FIRST), "mine", {"baseline": 10.0})


def measured(repeats: int) -> dict[str, Any]:
    """The stack's own step, whose comparison is of so many repeats."""
    event = step("resourcePreEvent", "p-local", "same", planning=True, of="pulumi:pulumi:Stack", old={"x": 1})
    event["resourcePreEvent"]["metadata"]["old"]["outputs"] = {"comparison": "[secret]", "repeats": float(repeats)}
    return event


COUNTED = re.compile(r"(\d+) (?:runs? )?(repeated|added|missing|kept|left out)")
SAME = {"old": {"epochs": 2}, "new": {"epochs": 2}}
BOTH = [f"{arm}-{repeat}" for repeat in (1, 2) for arm in ("baseline", "ray")]


@pytest.mark.parametrize(
    ("events", "keys", "counts"),
    [
        (  # epochs and repeats changed
            [
                measured(2),
                *planned(*BOTH, op="replace", **CHANGED),
                *planned("baseline-3", "ray-3"),
                *planned(*BOTH, op="delete-replaced", old=CHANGED["old"]),
            ],
            ["epochs 2 → 3", "repeats 2 → 3", "seed 1 → 2"],
            ["4 repeated", "2 added"],
        ),
        (  # repeats alone
            [measured(2), *planned(*BOTH, op="same", **SAME), *planned("baseline-3", "ray-3")],
            ["repeats 2 → 3"],
            ["2 added", "4 kept"],
        ),
        (  # an update with more repeats was stopped in the third: nothing changed since
            [measured(1), *planned(*BOTH, op="same", **SAME), *planned("baseline-3", "ray-3")],
            [],
            ["2 missing", "4 kept"],
        ),
        (  # a first measurement was stopped, and a setting changed
            [*planned(*BOTH, op="replace", **CHANGED), *planned("baseline-3")],
            ["epochs 2 → 3", "seed 1 → 2"],
            ["4 repeated", "1 missing"],
        ),
        (  # fewer repeats
            [measured(2), *planned(*BOTH[:2], op="same", **SAME), *planned(*BOTH[2:], op="delete", **SAME)],
            ["repeats 2 → 1"],
            ["2 left out"],
        ),
        (  # another arm, with which all are measured again
            [measured(2), *planned(*BOTH, op="replace", **SAME), *planned("wide-1", "wide-2")],
            ["with wide"],
            ["4 repeated", "2 added"],
        ),
        (  # an arm less
            [measured(2), *planned("ray-1", "ray-2", op="same", **SAME), *planned("baseline-1", op="delete", **SAME)],
            ["without baseline"],
            ["1 left out"],
        ),
    ],
)
def test_a_preview_names_every_changed_key_and_what_it_does_with_each_run(
    events: list[dict[str, Any]], keys: list[str], counts: list[str]
) -> None:
    """Repeated is what was measured, added what was not asked for before, missing what an update did not come to."""
    text = words(update_after(events), "mine", KNOWN)
    head, _, rest = text.partition(": ") if keys else ("", "", text)
    counted = COUNTED.findall(rest)

    assert sorted(keys) == sorted(filter(None, head.split(", ")))
    assert sorted(counts) == sorted(f"{number} {what}" for number, what in counted)


def test_every_changed_key_is_named_however_many() -> None:
    """The values of the first; a workload's own keys mean nothing of another."""
    before, after = ({f"key{number}": value for number in range(9)} for value in (1, 2))
    text = words(update_after(planned("ray-1", op="replace", old=before, new=after)), "mine", {})
    cnn, script = {"workload": "cnn", "model": "x", "workers": 2}, {"workload": "script", "script": "y", "workers": 3}
    other = words(update_after(planned("ray-1", op="replace", old=cnn, new=script)), "mine", {})

    assert before.keys() <= set(re.findall(r"key\d", text))
    assert text.count("1 → 2") == 4
    changed = [tuple(each.replace("→ ", "").split()) for each in other.partition(": ")[0].split(", ")]
    assert [("workload", "cnn", "script"), ("workers", "2", "3")] == changed


def test_what_a_run_is_given_beside_its_recipe_is_named() -> None:
    """Data at another place, and Ray's dashboard."""
    events = planned("ray-1", op="replace", **SAME)
    for when, value in (("old", "False"), ("new", "True")):
        events[0]["resourcePreEvent"]["metadata"][when]["inputs"]["rayDashboard"] = value

    assert words(update_after(events), "mine", {}).split()[:4] == ["rayDashboard", "False", "→", "True:"]


def test_the_seed_is_named_as_it_was_set() -> None:
    """Each repeat has its own, counted from the first's."""
    events = planned("ray-3", op="replace", old={"seed": 4}, new={"seed": 9})

    assert words(update_after(events), "mine", {}).split()[:4] == ["seed", "2", "→", "7:"]
