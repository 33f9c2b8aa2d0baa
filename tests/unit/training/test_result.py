"""The result contract: what is written is read back, and what is not a whole result is refused by name."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Wording
from tests.unit.results import make_result
from training.contract.codec import ResultError, write_whole
from training.contract.recipe import canonical
from training.contract.result import NAME, SCHEMA_VERSION, SearchOutcome, Summary, TrainingResult, read, summarise

PROJECT = Path(__file__).parents[3]
ARMS = ("baseline", "native", "ray")


def written(folder: Path, **changes: Any) -> Path:
    """A result file with keys changed, by their dotted names; `...` removes one."""
    data = make_result().to_dict()
    for key, value in changes.items():
        *parts, last = key.split(".")
        place = data
        for part in parts:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    path = folder / NAME
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("arm", ARMS)
def test_round_trip(tmp_path: Path, arm: str) -> None:
    """A result of any arm reads back equal, histories and nulls included."""
    result = make_result(arm)
    result.write(tmp_path / NAME)

    assert read(tmp_path / NAME) == result


def test_keys_are_camel_case_everywhere() -> None:
    """No snake_case key reaches JSON, at any depth; names of classes, phases, checks and variables are data."""

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            inner = (item for name, item in value.items() if name != "environment")
            return set(value) | {key for item in inner for key in keys(item)}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    assert {key for key in keys(make_result().to_dict()) if "_" in key} == set()


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, None, "1"])
def test_another_version_is_refused(wording: Wording, tmp_path: Path, version: Any) -> None:
    """An older or newer file is not guessed at: the message has both versions, the file and what to do."""
    path = written(tmp_path, schemaVersion=version)

    with pytest.raises(
        ResultError,
        match=rf"{path}.*schemaVersion .*{version!r}.* {SCHEMA_VERSION}\b",  # not prose: a pattern
    ) as refused:
        read(path)
    wording("run", str(refused.value))


def test_a_result_with_the_probe_of_the_link_is_read(tmp_path: Path) -> None:
    """Runs measured it until nothing read it any more; their files and what a stack's state has of them stay good."""
    probed = written(tmp_path, allReduce={"65536": 0.0004})
    summary = {**json.loads(summarise(probed, tmp_path)), "allReduce": None}

    assert make_result() == read(probed)
    assert read(probed).scores == Summary.from_dict(summary).result.scores


def test_a_version_that_is_absent_is_refused(tmp_path: Path) -> None:
    """A file from before versions is another version."""
    with pytest.raises(ResultError, match="schemaVersion is None"):
        read(written(tmp_path, schemaVersion=...))


def test_an_absent_file_is_an_error_and_not_a_zero(wording: Wording, tmp_path: Path) -> None:
    """A run that left nothing has no result, and its log is where to look."""
    with pytest.raises(ResultError, match=NAME) as refused:
        read(tmp_path / NAME)
    wording("run", str(refused.value))


@pytest.mark.parametrize("text", ["", "{", '{"schemaVersion": 1', "\x00\x00", "[]", "3", "null"])
def test_damaged_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    """Empty, cut off or another JSON: always one ResultError that names the file."""
    path = tmp_path / NAME
    path.write_text(text)

    with pytest.raises(ResultError, match=str(path)):
        read(path)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    """No prefix of a result is a result."""
    path = tmp_path / NAME
    make_result().write(path)
    whole = path.read_text().rstrip()

    for end in range(0, len(whole), 97):
        path.write_text(whole[:end])
        with pytest.raises(ResultError):
            read(path)


def _keys(*, required: bool) -> list[str]:
    from training.contract.recipe import camel

    fields = dataclasses.fields(TrainingResult)
    missing = dataclasses.MISSING
    return [camel(f.name) for f in fields if (f.default is missing and f.default_factory is missing) == required]


@pytest.mark.parametrize("key", _keys(required=True))
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    """Each key that a result must have is missed by name."""
    with pytest.raises(ResultError, match=f"lacks {key}"):
        read(written(tmp_path, **{key: ...}))


@pytest.mark.parametrize("key", sorted(set(_keys(required=False)) - {"schemaVersion"}))
def test_optional_keys_may_be_absent(tmp_path: Path, key: str) -> None:
    """What has a default may be left out."""
    assert read(written(tmp_path, **{key: ...})).arm == "ray"


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    """A key that nobody reads is a mistake of who wrote it."""
    with pytest.raises(ResultError, match="unknown keys trainMinutes"):
        read(written(tmp_path, trainMinutes=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"worldSize": "2"}, "result.worldSize is str, and should be int"),
        ({"worldSize": 2.5}, "result.worldSize is float, and should be int"),
        ({"worldSize": True}, "result.worldSize is bool, and should be int"),
        ({"seconds.wall": None}, "result.seconds.wall is NoneType, and should be float"),
        ({"scores.testAccuracy": True}, "result.scores.testAccuracy is bool, and should be float"),
        ({"detail.classNames": "0123"}, "result.detail.classNames is str, and should be list"),
        ({"detail.confusionMatrix": [[1, "2"]]}, r"result.detail.confusionMatrix\[0\]\[1\] is str, and should be int"),
        ({"workers": [{}]}, r"result.workers\[0\] lacks"),
        ({"detail.history": [{"epoch": 1}]}, r"result.detail.history\[0\] lacks accuracy"),
        ({"seconds.phases": {"data": "1"}}, "result.seconds.phases.data is str, and should be float"),
        ({"checks": {"weightsEqual": 1}}, "result.checks.weightsEqual is int, and should be bool"),
        ({"steps.seconds": 0.1}, "result.steps.seconds is float, and should be dict"),
        ({"workload": "sums"}, "workload 'sums' is not known; known are cnn"),
    ],
)
def test_wrong_types_are_named_with_their_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Key, index, what was found and what should be."""
    with pytest.raises(ResultError, match=message):
        read(written(tmp_path, **changes))


def test_whole_numbers_are_floats_where_floats_are_meant(tmp_path: Path) -> None:
    """JSON writers may drop `.0`."""
    result = read(written(tmp_path, **{"seconds.wall": 10}))

    assert (result.seconds.wall, type(result.seconds.wall)) == (10.0, float)


def test_nulls_survive(tmp_path: Path) -> None:
    """What could not be measured is null in the file, and its reason beside it."""
    result = make_result(train_seconds=None, reasons={"seconds.train": "every step was warm-up"})
    result.write(tmp_path / NAME)

    assert json.loads((tmp_path / NAME).read_text())["seconds"]["train"] is None
    assert read(tmp_path / NAME) == result


def test_nan_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """A NaN is not JSON; the file before stays, or none appears."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_result(scores={"testLoss": float("nan")}).write(tmp_path / NAME)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whichever step the disk refuses: the old text stays, and no temporary file."""
    path = tmp_path / "file"
    path.write_text("old")

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")

    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("dies_in", ["fsync", "replace"])
def test_a_crash_never_shows_half_a_file(tmp_path: Path, dies_in: str) -> None:
    """A process killed with the text partly or wholly on disk, but before the rename, leaves the old file."""
    path = tmp_path / "file"
    path.write_text("old")
    target = "os.fsync" if dies_in == "fsync" else "pathlib.Path.replace"
    program = (
        "import os, pathlib, signal\n"
        "from training.contract.result import write_whole\n"
        f"{target} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_whole(pathlib.Path({str(path)!r}), 'new' * 100_000)\n"
    )

    done = subprocess.run([sys.executable, "-ESc", program], cwd=PROJECT, check=False)  # needs no package

    assert done.returncode == -9
    assert path.read_text() == "old"


@pytest.mark.parametrize("arm", ARMS)
def test_summary_leaves_out_long_series(arm: str) -> None:
    """The state keeps every number that a comparison needs, and none of the long series; the result is as it was."""
    result = make_result(arm, steps_trace=[0.1] * 20_000)
    data = result.to_dict()
    summary = result.summary("runs/x/result.json", "f" * 64)

    assert data == result.to_dict()
    assert set(summary) == set(data) | {"path", "sha256"}
    assert (None, []) == (summary["detail"], summary["steps"]["trace"])
    assert [[]] * len(result.workers) == [worker["samples"] for worker in summary["workers"]]
    assert len(canonical(summary)) < 10_000


def test_summarise_names_the_file_relative_to_the_project(tmp_path: Path) -> None:
    """Path and hash lead from the state back to the file, whose folder was made; the text is canonical."""
    path = tmp_path / "runs" / "local" / "ray-1" / NAME
    make_result().write(path)

    text = summarise(path, tmp_path)
    summary = json.loads(text)

    assert summary["path"] == "runs/local/ray-1/result.json"
    assert summary["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert text == canonical(summary)


def test_a_search_is_kept_in_the_summary(tmp_path: Path) -> None:
    """The comparison needs it, and reads summaries alone."""
    outcome = SearchOutcome(
        finished=3, stopped=0, failed=1, epochs_trained=None, trial_seconds=2.5, between_trials_seconds=0.1,
        best_config='{"lr":0.1}', best_metric=0.9,
    )  # fmt: skip
    make_result(search=outcome).write(tmp_path / NAME)

    assert Summary.from_dict(json.loads(summarise(tmp_path / NAME, tmp_path))).result.search == outcome
