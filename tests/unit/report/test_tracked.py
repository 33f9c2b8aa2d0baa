"""What an MLflow server gets of a comparison: all its numbers, and nothing that is secret."""

import json
import re
import statistics
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from compare.comparison import compare
from compare.schema import Comparison
from infra.settings.settings import Settings
from report.mlflow_client import Tracked
from report.publish import publish
from report.series import Value
from report.tracking import describe
from tests.unit.results import RUN, make_context, make_recipe, make_result, ratio_of, written_run
from tests.unit.settings_machine import machine, parse
from training.contract.codec import decode, encode
from training.contract.result import Reported, StepParts

SERVER = "http://mlflow.example.com:5000/"


@pytest.fixture
def comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Of two repeats, published."""
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "the page")
    runs = [written_run(tmp_path, make_result(arm, repeat), repeat) for repeat in (1, 2) for arm in RUN]
    return compare(runs, make_context(repeats=2, settings={"trackingUri": SERVER, "priceCpuHour": "0.05"}))


def tracked(comparison: Comparison, project: Path) -> Tracked:
    """As the process that writes it reads it."""
    made = describe(comparison, publish(comparison, "local", project), "local", project)
    return decode(Tracked, json.loads(json.dumps(encode(made))), "tracked")  # type: ignore[no-any-return]


def test_every_number_of_the_comparison_is_there(comparison: Comparison, tmp_path: Path) -> None:
    """Ratios with their intervals, an arm's medians; none for what was not measured."""
    metrics = {each.name: each.value for each in tracked(comparison, tmp_path).whole.metrics}

    speedup = ratio_of(comparison, "speedup")
    assert (speedup.median, speedup.lower, speedup.upper) == tuple(
        metrics[f"speedup{end}"] for end in ("", ".lower", ".upper")
    )
    assert {name for name, ratio in comparison.ratios.items() if ratio} == metrics.keys() & comparison.ratios.keys()
    for arm, summary in comparison.arms.items():
        medians = {name: spread.median for name, spread in summary.measures.items() if spread}
        assert medians == {
            name.removeprefix(f"{arm}/"): value for name, value in metrics.items() if name.startswith(f"{arm}/")
        }


def test_the_parts_of_a_step_are_there(tmp_path: Path, comparison: Comparison) -> None:
    """By arm; the others have none."""
    parts = StepParts(seconds={"input": 0.01, "compute": 0.05}, exchange=[], link=None, own_work=[[0.06]])
    results = [replace(make_result(arm), step_parts=parts if arm == "ray" else None) for arm in RUN]
    runs = [written_run(tmp_path, result) for result in results]
    other = compare(runs, make_context(repeats=1, settings=comparison.settings))
    metrics = {each.name: each.value for each in tracked(other, tmp_path).whole.metrics}

    expected = {"ray/step/inputSeconds": 0.01, "ray/step/computeSeconds": 0.05}
    assert expected == {name: value for name, value in metrics.items() if "/step/" in name}


def test_the_answer_and_the_settings_are_there(comparison: Comparison, tmp_path: Path) -> None:
    """As tags and params: what somebody searches and filters by."""
    whole = tracked(comparison, tmp_path).whole

    assert comparison.answer == whole.tags["answer"]
    assert comparison.verdict == whole.tags["mlflow.note.content"]
    assert {"mlflow.note.content", "answer", "claim"} == whole.tags.keys()
    assert {"epochs": "3", "priceCpuHour": "0.05", "model": "cnn"}.items() <= whole.params.items()
    assert "trackingUri" not in whole.params


def test_each_run_is_there_with_its_real_times_and_epochs(comparison: Comparison, tmp_path: Path) -> None:
    """Medians over them are the comparison's; an epoch is a step."""
    made = tracked(comparison, tmp_path)

    assert {f"{arm}-{repeat}" for arm in RUN for repeat in (1, 2)} == {run.name for run in made.runs}
    for arm in RUN:
        totals = [_total(run.metrics, "trainSeconds") for run in made.runs if run.tags["arm"] == arm]
        assert comparison.arms[arm].median("trainSeconds") == pytest.approx(statistics.median(totals))
    ray = next(run for run in made.runs if run.name == "ray-1")
    link = comparison.arms["ray"].runs[0]
    assert datetime.fromisoformat(link.started_at).timestamp() == ray.started
    assert link.wall_seconds == pytest.approx(ray.ended - ray.started)
    assert [(1, 1.2), (2, 0.6), (3, 0.4)] == [
        (each.step, round(each.value, 4)) for each in ray.metrics if each.name == "loss/training"
    ]
    assert all(ray.started < each.at <= ray.ended for each in ray.metrics)


def _total(metrics: list[Value], name: str) -> float:
    (value,) = [each.value for each in metrics if each.name == name]
    return value


def test_what_a_script_reported_is_a_curve(tmp_path: Path, comparison: Comparison) -> None:
    """By its own names, at the seconds at which it said it."""
    result = replace(make_result(), reported={"loss": [Reported(seconds=2.0, value=0.5)]})
    runs = [written_run(tmp_path, result, 1), *(written_run(tmp_path, make_result(arm), 1) for arm in RUN[:2])]
    other = compare(runs, make_context(repeats=1, settings=comparison.settings))

    ray = next(run for run in tracked(other, tmp_path).runs if run.name == "ray-1")

    (point,) = [each for each in ray.metrics if each.name == "reported/loss"]
    assert (0.5, 1, ray.started + 2) == (point.value, point.step, point.at)


def test_a_run_whose_file_is_gone_is_there_without_numbers(comparison: Comparison, tmp_path: Path) -> None:
    """And says so; those of the comparison are in the measurement's own run."""
    (tmp_path / "runs/test/ray-1/result.json").unlink()
    (tmp_path / "runs/test/ray-2/result.json").write_text("other")

    runs = {run.name: run for run in tracked(comparison, tmp_path).runs}

    assert ("missing", "changed") == tuple(runs[name].tags["resultFile"] for name in ("ray-1", "ray-2"))
    assert [] == runs["ray-1"].metrics == runs["ray-2"].metrics
    assert runs["ray-1"].ended > runs["ray-1"].started


def test_the_same_runs_are_one_measurement(comparison: Comparison, tmp_path: Path) -> None:
    """Compared with a price, too; runs that were made again are another."""
    dearer = replace(comparison, settings={**comparison.settings, "priceCpuHour": "0.1"})
    again = [written_run(tmp_path, make_result(arm, step_seconds_mean=0.2), 1) for arm in RUN]
    other = compare(again, make_context(repeats=1, settings=comparison.settings))

    first, same, another = (tracked(each, tmp_path) for each in (comparison, dearer, other))

    assert (first.measurement == same.measurement, first.comparison == same.comparison) == (True, False)
    assert first.measurement != another.measurement


def settings_with_secrets() -> Settings:
    """Of a script that needs a secret, in a stack of an existing Ray cluster that has a token."""
    values = {
        "target": "ray",
        "rayAddress": "http://head.example.com:8265",
        "rayToken": "hunter2-ray",
        "workload": "script",
        "script": "examples/keras_tf_config.py",
        "secretEnvironment": "HF_TOKEN=hunter2-script",
        "trackingUri": SERVER,
    }
    return parse(values, machine(stack="ray", secret=frozenset({"rayToken", "secretEnvironment"})))


def test_no_secret_is_in_any_of_it(tmp_path: Path, comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the settings, nor of who calls: params, tags and files are made of what is public."""
    for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "PULUMI_CONFIG_PASSPHRASE", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"hunter2-{name}")
    given = settings_with_secrets().explicit
    runs = [written_run(tmp_path, make_result(arm, recipe=make_recipe()), 1) for arm in RUN]

    made = tracked(compare(runs, make_context(repeats=1, settings=given)), tmp_path)

    assert "rayAddress" in made.whole.params
    for text in (json.dumps(encode(made)), *(Path(path).read_text() for path in made.files)):
        assert not re.search("hunter2", text)
