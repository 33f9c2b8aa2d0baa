"""The runs of a cluster as a `Source`: each is a pod, and its progress is in its log, as lines for people."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.follow.source import News, State, newest_measurement, published
from cli.look import cluster
from cli.look.status_view import phase
from infra.places.cluster.api import kube, waits
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.job_result import INDEX_LABEL, UID_LABEL
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL, RUN_LABEL

_NUMBER = r"([\d.,]+|nan|inf)"
_EPOCH = re.compile(
    rf"epoch (\d+)/(\d+)  loss {_NUMBER}  accuracy {_NUMBER}(?:  validation {_NUMBER})?"
    rf"  (?:{_NUMBER} images/s|warm-up)  {_NUMBER} s left"
)
_START = re.compile(r"(\d+) worker\(s\), ([\d,]+) images, (\d+) steps an epoch, (\d+) epoch\(s\)")
_TRIAL = re.compile(
    r"(?:(\d+) of (\d+) trials|trials so far: (\d+)): trial (\d+) (finished|stopped|failed)(?: with (\S+) (\S+))?$"
)
_STATES: dict[str, State] = {"Succeeded": "finished", "Failed": "failed"}


class ClusterSource:
    """The pods of the newest measurement, without those whose Job was deleted meanwhile."""

    def __init__(self, project: Path, stack: str, overrides: Mapping[str, str]) -> None:
        self._project = project
        self._cluster = cluster.find(stack, overrides)
        self._api: Any = None
        self._published = published(project, stack)
        self._lines: dict[str, int] = {}
        self._events: dict[str, set[str]] = {}
        self._places: dict[str, str] = {}
        self._last: list[News] = []
        self._running: set[str] = set()
        self._failed = False
        self.trouble = self.waits_for = ""

    def poll(self) -> list[News]:
        """Return the news of the runs since the last call; empty before the cluster exists, and without events while it
        does not answer. Raise ToolError for a kubeconfig that can't be used."""
        self._api = self._api or cluster.client_of_made(self._cluster)
        if self._api is None:
            return []
        try:
            news = [self._news(pod) for pod in newest_measurement(self._pods(), started)]
            self.waits_for = "" if any(each.state == "running" for each in news) else self._reasons()
        except KubeError as error:
            self.trouble = str(error)
            return [replace(run_news, events=[]) for run_news in self._last]
        self._last, self.trouble = news, ""
        self._failed = any(run_news.state == "failed" and run_news.key in self._running for run_news in news)
        self._running |= {run_news.key for run_news in news if run_news.state == "running"}
        return news

    def is_over(self) -> bool:
        """Return whether the measurement was published since this object was made, or a run in progress has failed."""
        return self._failed or published(self._project, self._cluster.stack) != self._published

    def _pods(self) -> list[dict[str, Any]]:
        """Return one pod for each run. Of an Indexed Job, that is the pod that prints progress."""
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods"
        pods = kube.items(self._api, path, labelSelector=f"{RUN_LABEL},{UID_LABEL}")
        return [pod for pod in pods if pod["metadata"]["labels"].get(INDEX_LABEL, "0") == "0"]

    def _reasons(self) -> str:
        """Return the reasons why the project's pods wait, as Ray's may before the first run; "" if none waits."""
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods"
        pods = kube.items(self._api, path, labelSelector=f"{PROJECT_LABEL}={PROJECT}")
        return "; ".join(dict.fromkeys(reason for pod in pods for reason in waits.reasons(pod)))

    def _news(self, pod: Mapping[str, Any]) -> News:
        metadata = pod["metadata"]
        state = _STATES.get(pod["status"].get("phase", ""), "running")
        command = f"{self._cluster.kubectl} logs {metadata['name']}"
        key = metadata["labels"][UID_LABEL]
        return News(key, metadata["labels"][RUN_LABEL], state, command, list(self._new_events(key, pod, state)))

    def _new_events(self, key: str, pod: Mapping[str, Any], state: State) -> Iterator[dict[str, Any]]:
        place = f"{phase(pod)} on {pod['spec']['nodeName']}" if pod["spec"].get("nodeName") else phase(pod)
        place = ": ".join([place, *waits.reasons(pod)])
        if state == "running" and self._places.get(key) != place:
            self._places[key] = place
            yield {"event": "note", "text": place}
        if pod["status"].get("phase") == "Pending" or self._lines.get(key) == _ALL:
            return
        text = kube.log(self._api, self._cluster.namespace, pod["metadata"]["name"])
        lines = text.splitlines() if state != "running" else text.splitlines()[: text.count("\n")]
        seen, self._lines[key] = self._lines.get(key, 0), len(lines) if state == "running" else _ALL
        earlier_events = self._events.setdefault(key, set())
        for event in events(lines[seen:]):
            if (written := repr(event)) not in earlier_events:  # Ray Train prints and logs a line: a log has it twice
                earlier_events.add(written)
                yield event


_ALL = -1
"""Used in place of a number of lines if the log has ended and was read to its end."""


def started(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Return when the pod of a run was created, and the run's name."""
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["labels"][RUN_LABEL]


def events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the events in log lines of `training.contract.progress.describe`, before which Ray may put a name."""
    for line in lines:
        if match := _EPOCH.search(line):
            epoch, epochs, *numbers = match.groups()
            values = [None if text is None else float(text.replace(",", "")) for text in numbers]
            names = ("loss", "accuracy", "validationAccuracy", "imagesPerSecond", "secondsLeft")
            yield {
                "event": "epoch",
                "epoch": int(epoch),
                "epochs": int(epochs),
                **dict(zip(names, values, strict=True)),
            }
        elif match := _TRIAL.search(line):
            ended, trials, so_far, trial, state, metric, value = match.groups()
            yield {
                "event": "trial",
                "trial": int(trial),
                "ended": int(ended or so_far),
                "trials": None if trials is None else int(trials),
                "state": state,
                "metric": metric,
                "value": None if value is None else float(value),
            }
        elif match := _START.search(line):
            workers, images, steps, epochs = (int(text.replace(",", "")) for text in match.groups())
            yield {"event": "start", "workers": workers, "images": images, "stepsPerEpoch": steps, "epochs": epochs}
