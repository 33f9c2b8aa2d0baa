"""What the cluster tests do with their project, and what they ask of its cluster with kubectl."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import place
from tests.docs import session
from tests.limits import LONGEST_SECONDS
from tests.metrics.prometheus import Prometheus
from tests.program.engine import Project

STACK = "ci"
PROFILE = "ray-worth-it-ci-test"
NAMESPACE = "ray-system"
TEMPLATE: dict[str, dict[str, Any]] = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/note": "of the template"}},
    "spec": {
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
    },
}
"""What the pods of the story's stack have in common."""
SMALL = {
    "workers": "1",
    "workerCpus": "0.25",
    "headCpus": "0.5",  # `ray start` gives up after 30 s, which a quarter of a slow core takes
    "workerMemory": "1Gi",
    "allowOversubscription": "true",
    "nativeArm": "false",
    "repeats": "1",
    "epochs": "1",
    "model": "cnn-half",
    "dataset": "digits",
    "trainImages": "320",
}
"""A measurement beside another on a machine with two cores."""
SECONDS = 1500
"""For one `up`, the build of the image included."""


class ClusterProject(Project):
    """A copy of the project with the stack `ci`, under a profile of its own."""

    def __init__(self, folder: Path, cli: Path) -> None:
        super().__init__(folder, cli, stub=False, seconds=SECONDS)
        self.kubeconfig = self.folder / ".state" / "kubeconfig" / STACK
        # Minikube writes where KUBECONFIG says: a file of the test's, to see that nothing does
        self.users = folder / "kubeconfig"
        self.users.write_text("apiVersion: v1\nkind: Config\ncurrent-context: mine\n")
        self.environment["KUBECONFIG"] = str(self.users)
        self.site = place.settings(folder / "offline")
        session.complete(self, cli)
        (self.folder / "pods.yaml").write_text(json.dumps(TEMPLATE), encoding="utf-8")
        if place.plugins().is_dir():
            (folder / "home" / "plugins").symlink_to(place.plugins())

    def create(self) -> None:
        """Make the stack, and set what this place needs."""
        self.pulumi("stack", "init", STACK)
        self.configure(minikubeProfile=PROFILE, podTemplate="pods.yaml", minikubeMemory="9Gi", **self.site)

    def steps(self) -> dict[str, str]:
        """What the next `up` would do, by resource; what stays is left out."""
        steps = self.preview_steps()
        return {step["urn"].rpartition("::")[2]: step["op"] for step in steps if step["op"] != "same"}

    def clean(self) -> None:
        """Destroy, and whatever is left by other means; nothing raised here may keep pytest from its report."""
        self._run("cancel", "--yes", stderr=subprocess.STDOUT)  # an interrupted `up` has left its lock
        destroyed = self._run("destroy", "--yes", "--skip-preview", stderr=subprocess.STDOUT)
        if destroyed.returncode:
            print(f"The stack was not destroyed:\n{destroyed.stdout}")
        if PROFILE in self.leftovers():
            subprocess.run(["minikube", "delete", "--profile", PROFILE], check=False)

    def kubectl(self, *arguments: str, ok: bool = True) -> str:
        """The output of a kubectl command in the cluster; `minikube kubectl` where there is no kubectl."""
        program = ["kubectl"] if shutil.which("kubectl") else ["minikube", "--profile", PROFILE, "kubectl", "--"]
        command = [*program, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        assert ok == (done.returncode == 0), f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout + ("" if ok else done.stderr)

    def objects(self, kind: str, *arguments: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """The objects of a kind in a namespace, the stack's."""
        found = json.loads(self.kubectl("get", kind, f"--namespace={namespace}", "--output=json", *arguments))
        return list(found["items"])

    @contextmanager
    def prometheus(self) -> Iterator[Prometheus]:
        """The stack's Prometheus, by a forwarded port as docs/metrics.md has it."""
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", f"--namespace={NAMESPACE}", "port-forward"]
        forward = [*command, "service/prometheus", ":9090"]
        with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as process:
            try:
                said = re.search(r"(127\.0\.0\.1:\d+)", process.stdout.readline() if process.stdout else "")
                assert said, "no port was forwarded"
                yield Prometheus(f"http://{said[1]}")
            finally:
                process.kill()

    def results(self) -> dict[str, dict[str, Any]]:
        """The summary of each run's result in the state, by the run's name."""
        resources = self.state()["resources"]
        return {
            entry["inputs"]["name"]: json.loads(entry["outputs"]["result"])
            for entry in resources
            if entry["type"].endswith("cluster:JobResult")
        }

    @contextmanager
    def another_stack(self, name: str, **settings: str) -> Iterator[None]:
        """A stack of target `kubernetes` in the same cluster, as small as can be; destroyed at the end."""
        reached = {"kubeconfig": str(self.kubeconfig), "kubeContext": PROFILE}
        self.pulumi("stack", "init", name)
        try:
            self.configure(**SMALL, **self.site, **reached, **settings)
            try:
                yield
            finally:
                self.pulumi("destroy", "--yes", "--skip-preview")
        finally:
            self.pulumi("stack", "select", STACK)

    def token(self) -> str:
        """What the printed command prints."""
        return self.shell(str(self.outputs()["dashboardTokenCommand"])).strip()

    def shell(self, line: str) -> str:
        """Type a line as the user would, in the project's folder; gives what it prints."""
        typed = ["bash", "-c", line]
        done = subprocess.run(
            typed, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    @staticmethod
    def leftovers() -> str:
        """All that Docker and Minikube list: containers, volumes, networks, profiles."""
        listings = (
            ("docker", "ps", "--all", "--format", "{{.Names}}"),
            ("docker", "volume", "ls", "--format", "{{.Name}}"),
            ("docker", "network", "ls", "--format", "{{.Name}}"),
            ("minikube", "profile", "list", "--output", "json", "--light"),
        )
        return "\n".join(subprocess.run(one, capture_output=True, text=True, check=False).stdout for one in listings)
