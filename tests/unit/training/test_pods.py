"""What only pods need: peers of an Indexed Job, versions of an image, a result in a log."""

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.unit.results import changed, make_result
from training.contract.codec import ResultError
from training.contract.result import TrainingResult
from training.launch import rendezvous
from training.launch.pod import indexed_job, log_result, versions
from training.workloads.cnn.recipe import CnnRecipe

RESULT = make_result("ray", 1, CnnRecipe())


def log_of_result(before: str = "epoch 1/2\n") -> str:
    """A log as a pod leaves it."""
    return f"{before}{log_result.MARKER}\n{json.dumps(RESULT.to_dict())}\n"


def test_a_result_survives_its_way_through_a_log() -> None:
    """What was measured is what is kept."""
    assert RESULT == log_result.find_result(log_of_result())


def test_a_line_cut_by_the_runtime_is_joined() -> None:
    """Container runtimes cut lines at 16 KiB, wherever that falls."""
    marker, line = log_of_result("").split("\n")[:2]
    cut = "\n".join(line[start : start + 100] for start in range(0, len(line), 100))

    assert RESULT == log_result.find_result(f"{marker}\n{cut}\n")


def test_the_last_result_counts() -> None:
    """A library may print the marker's text, or an earlier run's log may be shown."""
    assert RESULT == log_result.find_result(f"{log_result.MARKER}\n{{}}\n{log_of_result()}")


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("epoch 1/2\n", "holds no result"),
        (log_of_result()[:-200], "not whole"),
        (f"{log_result.MARKER}\n[1]\n", "list"),
    ],
)
def test_a_log_without_a_whole_result_says_so(log: str, says: str) -> None:
    """Never a guess, never a zero."""
    with pytest.raises(ResultError, match=says):
        log_result.find_result(log)


def printed(result: TrainingResult, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The log of a pod that leaves this result."""
    result.write(folder / "result.json")
    log_result.print_result(folder / "result.json")
    return capsys.readouterr().out


def test_a_result_of_a_day_fits_a_container_s_log(
    wording: Wording, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet starts a log anew at 10 MiB: series are thinned, in order and said, and nothing else is changed."""
    assert log_result.MOST_BYTES < 10 * 2**20 / 2
    monkeypatch.setattr(log_result, "MOST_BYTES", 100_000)
    workers = [replace(worker, samples=[[1.0 * s, 0.97, 6e8] for s in range(3000)]) for worker in RESULT.workers]
    long = changed(RESULT, workers=workers, steps_trace=[0.051234 + step * 1e-9 for step in range(20_000)])

    log = printed(long, tmp_path, capsys)
    kept = log_result.find_result(log)

    assert len(log) < 101_000
    every = len(long.steps.trace) // len(kept.steps.trace)
    assert every > 1
    assert long.steps.trace[::every] == kept.steps.trace
    assert [worker.samples[::every] for worker in long.workers] == [worker.samples for worker in kept.workers]
    assert str(every) in kept.reasons["steps.trace"].split()
    assert kept.reasons["steps.trace"] == kept.reasons["workers.samples"]
    wording("run", kept.reasons["steps.trace"])
    assert f"note: {kept.reasons['steps.trace']}" in log_result.without_result(log)
    short = changed(kept, workers=[], steps_trace=[], reasons=long.reasons)
    assert changed(long, workers=[], steps_trace=[]) == short


def test_a_result_of_minutes_is_printed_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step and every second."""
    log = printed(RESULT, tmp_path, capsys)

    assert RESULT == log_result.find_result(log)
    assert "note:" not in log


def test_people_read_the_log_without_the_result() -> None:
    """It is in its own file."""
    assert "epoch 1/2\n" == log_result.without_result(log_of_result())
    assert "nothing\n" == log_result.without_result("nothing\n")


def test_addresses_follow_from_one_pod_s_name() -> None:
    """Kubernetes names the pods JOB-INDEX, and the Service's name follows."""
    found = indexed_job.addresses("native-1-abc12-1", 1, "native-1", 3)

    assert [f"native-1-abc12-{i}.native-1:2222" for i in range(3)] == found


def test_a_host_that_no_indexed_job_named_is_refused() -> None:
    """Otherwise the workers would wait for names that nobody has."""
    with pytest.raises(ValueError, match="no Indexed Job"):
        indexed_job.addresses("laptop", 0, "native-1", 2)


def test_tf_config_names_all_workers_and_this_one() -> None:
    """As TensorFlow reads it."""
    config = json.loads(rendezvous.tensorflow(["a:1", "b:1"], 1)["TF_CONFIG"])

    assert {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}} == config


def test_a_worker_waits_until_every_name_resolves() -> None:
    """A pod that waits for a place has no address yet."""
    unknown = {"b": 3}

    def resolve(name: str) -> str:
        if unknown.get(name, 0) > 0:
            unknown[name] -= 1
            raise OSError(name)
        return "10.0.0.1"

    indexed_job.wait_for(["a", "b"], resolve=resolve, poll_seconds=0)

    assert {"b": 0} == unknown


def test_a_name_that_never_resolves_is_named() -> None:
    """With what shows why."""

    def resolve(name: str) -> str:
        raise OSError(name)

    with pytest.raises(TimeoutError, match=r"native-1-x-2 .*kubectl get pods"):
        indexed_job.wait_for(["native-1-x-2"], resolve=resolve, seconds=0, poll_seconds=0)


def test_an_image_with_other_versions_is_refused_by_name() -> None:
    """Both versions are named: the one there is and the one there should be."""
    with pytest.raises(versions.WrongVersionsError, match=r"ray \d\S+ .*0\.0\.1"):
        versions.check({versions.EXPECTED: json.dumps({"ray": "0.0.1"})})


def test_python_s_patch_version_does_not_matter() -> None:
    """The base image brings it; major and minor decide which wheels are there."""
    major, minor, _ = platform.python_version_tuple()

    versions.check({versions.EXPECTED: json.dumps({"python": f"{major}.{minor}"})})
    versions.check({})
