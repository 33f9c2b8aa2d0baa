"""Watching a cluster: the runs are pods, and their progress is what their logs say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.follow.cluster import ClusterSource, events
from cli.follow.source import News
from cli.look import cluster
from cli.setup.project import ToolError
from infra.places.cluster.api import kube
from infra.places.cluster.job_result import INDEX_LABEL, UID_LABEL
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL, RUN_LABEL
from tests.unit.kube_api import NAMESPACE, Api, pod, serving
from training.contract.progress import describe

START = {"event": "start", "workers": 2, "images": 1280, "stepsPerEpoch": 20, "epochs": 3}
EPOCH = {
    "event": "epoch",
    "epoch": 2,
    "epochs": 3,
    "loss": 0.5,
    "accuracy": 0.8,
    "validationAccuracy": 0.7,
    "imagesPerSecond": 1234.0,
    "secondsLeft": 9.0,
}

TRIAL = {"event": "trial", "trial": 3, "ended": 5, "trials": 16, "state": "finished", "metric": "loss", "value": 0.25}


@pytest.mark.parametrize(
    "event",
    [
        TRIAL,
        TRIAL | {"trials": None},
        TRIAL | {"state": "failed", "metric": None, "value": None},
        START,
        EPOCH,
        EPOCH | {"imagesPerSecond": None},
        EPOCH | {"validationAccuracy": None},
        START | {"images": 45000},
    ],
)
@pytest.mark.parametrize("prefix", ["", "\x1b[36m(TrainWorker pid=77, ip=10.244.1.5)\x1b[0m "])
def test_what_a_run_prints_is_read_back(event: dict[str, Any], prefix: str) -> None:
    """Whatever `training.contract.progress` writes, with or without Ray's prefix."""
    assert [event] == list(events(["Ray started", prefix + describe(event), '{"epoch": 1}']))


def test_a_loss_that_is_no_number_is_read_too() -> None:
    """A run that diverges goes on being watched."""
    (found,) = events([describe(EPOCH | {"loss": float("nan")})])

    assert found["loss"] != found["loss"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, ClusterSource]]:
    """The cluster of stack `ci`."""
    with serving(tmp_path) as (api, kubeconfig):
        monkeypatch.setattr(cluster, "client_of_made", lambda _: kube.connect(kubeconfig))
        yield api, ClusterSource(tmp_path, "ci", {})


def test_a_log_is_read_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server stops there: what a kubelet keeps is decided by its owner."""
    monkeypatch.setattr(kube, "MOST_LOG", 10)
    with serving(tmp_path) as (api, kubeconfig):
        put(api, "ray-1", 1, "y" * 1000)

        assert "y" * 10 == kube.log(kube.connect(kubeconfig), NAMESPACE, "ray-1-1-x")


def put(api: Api, run: str, minute: int, log: str, phase: str = "Running", **labels: str) -> None:
    """A run's pod and its log."""
    name = f"{run}-{minute}-x" + labels.get("index", "")
    chosen = {RUN_LABEL: run, UID_LABEL: f"{run}-{minute}"}
    chosen |= {INDEX_LABEL: labels["index"]} if "index" in labels else {}
    api.put("/api/v1", "pods", pod(name, phase, chosen, created=f"2025-03-01T12:{minute:02d}:00Z"), NAMESPACE)
    api.texts[f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log"] = log


def test_news_are_told_once(source: tuple[Api, ClusterSource]) -> None:
    """A line that is half written waits for its end; a log that has ended is asked for no more."""
    api, watched = source
    put(api, "ray-1", 1, f"{describe(START)}\nepoch 2/3  lo")
    first = watched.poll()
    put(api, "ray-1", 1, f"{describe(START)}\n{describe(EPOCH)}\n")
    second = watched.poll()
    put(api, "ray-1", 1, f"{describe(START)}\n{describe(EPOCH)}\nlast", phase="Succeeded")
    watched.poll()
    asked = len([line for line in api.asked if line.endswith("/log")])
    fourth = watched.poll()

    assert ["note", "start"] == [event["event"] for event in first[0].events]
    assert [EPOCH] == second[0].events
    assert [] == fourth[0].events
    assert ("finished", "ray-1") == (fourth[0].state, fourth[0].run)
    assert asked == len([line for line in api.asked if line.endswith("/log")])


def test_what_a_log_has_twice_is_told_once(source: tuple[Api, ClusterSource]) -> None:
    """Ray Train prints a worker's line, and logs it: one after the other, or some seconds later."""
    api, watched = source
    diverged = EPOCH | {"loss": float("nan")}
    lines = [describe(START), describe(START), describe(diverged), ""]
    put(api, "ray-1", 1, "\n".join(lines))
    (first,) = watched.poll()
    put(api, "ray-1", 1, "\n".join([*lines[:-1], describe(diverged), describe(EPOCH), ""]))
    (second,) = watched.poll()

    assert ["note", "start", "epoch"] == [event["event"] for event in first.events]
    assert [EPOCH] == second.events


NO_NODE = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes: cordoned. none."}]}


def test_what_ray_s_pods_wait_for_is_said_before_there_is_a_run(source: tuple[Api, ClusterSource]) -> None:
    """The scheduler's reason, until a run goes on; of a run it stands with its pod."""
    api, watched = source
    worker = pod("worker", "Pending", {PROJECT_LABEL: PROJECT})
    worker["status"] |= NO_NODE
    api.put("/api/v1", "pods", worker, NAMESPACE)
    watched.poll()
    before = watched.waits_for
    put(api, "ray-1", 1, "", phase="Pending")
    api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods/ray-1-1-x"]["status"] |= NO_NODE
    ((note,),) = [news.events for news in watched.poll()]

    assert ("0/2 nodes: cordoned", "") == (before, watched.waits_for)
    assert str(note["text"]).endswith("0/2 nodes: cordoned")


def test_an_indexed_run_is_one_run(source: tuple[Api, ClusterSource]) -> None:
    """Index 0 prints; the others say nothing. What has no run is not ours."""
    api, watched = source
    put(api, "native-1", 1, "", index="1")
    put(api, "native-1", 1, describe(START) + "\n", index="0")
    put(api, "native-1", 1, "", index="2")
    api.put("/api/v1", "pods", pod("head"), NAMESPACE)

    (news,) = watched.poll()
    assert ("native-1", START) == (news.run, news.events[-1])


def test_only_the_newest_measurement_s_runs_are_told(source: tuple[Api, ClusterSource]) -> None:
    """Jobs of an older one stay until they are replaced, one after another."""
    api, watched = source
    for minute, run in enumerate(["baseline-1", "native-1", "ray-1"]):
        put(api, run, minute, "", phase="Succeeded")
    put(api, "baseline-1", 10, "")

    assert [("baseline-1", "running")] == [(its.run, its.state) for its in watched.poll()]


def test_a_pod_that_waits_is_asked_for_nothing(source: tuple[Api, ClusterSource]) -> None:
    """It has no log yet, which would be an error; why it waits is said once, and when it goes on."""
    api, watched = source
    put(api, "ray-1", 1, "", phase="Pending")

    assert [("running", ["Pending on one"])] == [(its.state, _notes(its)) for its in watched.poll()]
    assert [[]] == [_notes(its) for its in watched.poll()]
    assert [] == [line for line in api.asked if line.endswith("/log")]


def _notes(its: News) -> list[str]:
    return [event["text"] for event in its.events if event["event"] == "note"]


def test_a_failed_run_ends_watching_and_names_its_log(source: tuple[Api, ClusterSource]) -> None:
    """If it ran while it was watched: an old failure does not."""
    api, watched = source
    put(api, "ray-1", 1, "", phase="Failed")
    watched.poll()
    before = watched.is_over()
    put(api, "ray-1", 2, "")
    watched.poll()
    put(api, "ray-1", 2, "", phase="Failed")
    (news,) = watched.poll()

    assert (False, True) == (before, watched.is_over())
    assert "kubectl --kubeconfig=.state/kubeconfig/ci --namespace=ray-system logs ray-1-2-x" == news.log


def test_publishing_ends_watching(source: tuple[Api, ClusterSource], tmp_path: Path) -> None:
    """As on this machine."""
    _, watched = source
    (tmp_path / "results/ci").mkdir(parents=True)
    (tmp_path / "results/ci/latest").symlink_to("a")

    assert watched.is_over()


def test_a_cluster_that_does_not_answer_is_waited_for(source: tuple[Api, ClusterSource]) -> None:
    """What was known stays; nothing is told twice afterwards."""
    api, watched = source
    put(api, "ray-1", 1, describe(START) + "\n")
    watched.poll()
    api.forbidden.add(f"/api/v1/namespaces/{NAMESPACE}/pods")
    (during,) = watched.poll()
    api.forbidden.clear()
    (after,) = watched.poll()

    assert ("ray-1", [], []) == (during.run, during.events, after.events)


def test_a_cluster_that_is_not_made_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever watches first and updates then sees the update; a kubeconfig that can't be used is no such case."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    monkeypatch.setattr(kube, "PROJECT", tmp_path)
    watched = ClusterSource(tmp_path, "ci", {})
    (tmp_path / ".state/kubeconfig").mkdir(parents=True)

    assert [] == watched.poll()
    (tmp_path / ".state/kubeconfig/ci").write_text("")
    with pytest.raises(ToolError, match=r"^stack ci: .*kubeconfig"):
        watched.poll()


def refuse(*_: object, **__: object) -> None:
    """As a connection to nobody ends."""
    raise OSError("refused")


def test_a_cluster_that_does_not_answer_is_said_so(
    source: tuple[Api, ClusterSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it does not; what was known of the runs stays."""
    api, watched = source
    put(api, "ray-1", 1, "")
    before, trouble = watched.poll(), watched.trouble
    monkeypatch.setattr(watched._api, "request", refuse)
    during = watched.poll()

    assert ("", [its.key for its in before]) == (trouble, [its.key for its in during])
    assert "(refused)" in watched.trouble
    assert "curl --insecure --max-time 5 http://127.0.0.1:" in watched.trouble
    monkeypatch.undo()
    assert before[0].key == watched.poll()[0].key
    assert "" == watched.trouble
