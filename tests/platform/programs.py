"""A cluster of processes: control plane, KubeRay's operator, Kueue and kwok, without docker and without a container.

kwok plays the kubelets of 20 nodes: it sets what a pod's status would be, and starts nothing. The programs are looked
for as those of `tests/apiserver`, on PATH and where CLUSTER_ENV puts them; Kueue's CRDs and webhooks, which no program
brings, in KUEUE_MANIFESTS: a release's manifests.yaml, or the folder config/components of its source.
"""

import base64
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from tests.apiserver import control_plane
from tests.apiserver.control_plane import start
from tests.limits import LONGEST_SECONDS, wait_for
from tests.ports import free_ports

PROGRAMS = (
    *control_plane.PROGRAMS,
    "kube-scheduler",
    "kube-controller-manager",
    "kuberay-operator",
    "kueue",
    "kwok",
    "openssl",
    "unshare",
)
MANIFESTS = "KUEUE_MANIFESTS"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
FAKE = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of nodes that kwok plays."""
OURS = ("kueue-x-k8s-io", "batch-v1-job", "ray-io-v1-raycluster")
"""Parts of the paths of Kueue's webhooks that are called; the others are of kinds that the cluster has not."""
TOO_EARLY = 429
"""The API server's status while it prepares a kind's storage."""
LOG, KUBELET_PORT = "pod.log", "kubelet-port"
"""Files in the folder: the log of every pod, each line as a container runtime writes it; the port of all kubelets."""
FRAMEWORKS = ("batch/job", "ray.io/raycluster")
"""The kinds that Kueue takes."""
METRICS = "/etc/kueue/metrics"
"""Where Kueue reads a certificate, whatever its settings say, unless it manages its own."""
_IN_ITS_OWN_ETC = f'mount -t tmpfs none /etc && mkdir -p {METRICS} && ln -s "$0" {METRICS}/certs && exec "$@"'

Object = dict[str, Any]


def missing() -> str:
    """Return what is missing for a cluster of processes, as a reason to skip a test; "" if nothing is."""
    path = control_plane.search_path()
    lacking = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if lacking:
        return f"{', '.join(lacking)} neither on PATH nor put there by CLUSTER_ENV, a file that is sourced"
    if not Path(os.environ.get(MANIFESTS, "/nowhere")).exists():
        return f"{MANIFESTS} names neither a manifests.yaml of Kueue nor the folder config/components of its source"
    return ""


def kueue_objects() -> list[Object]:
    """Return Kueue's CRDs and webhook configurations."""
    given = Path(os.environ[MANIFESTS])
    parts = ("crd/bases/*.yaml", "webhook/manifests.yaml")
    files = [given] if given.is_file() else [file for part in parts for file in sorted(given.glob(part))]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [each for file in files for each in yaml.load_all(file.read_bytes(), loader) if each]
    return [each for each in found if each["kind"].endswith(("Definition", "WebhookConfiguration"))]


@contextmanager
def running(folder: Path, kuberay_crds: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Path, "Kueue"]]:
    """Start all programs; gives a kubeconfig for an administrator, and Kueue. Raises RuntimeError with a log's end."""
    path = control_plane.search_path()
    found = {name: str(shutil.which(name, path=path)) for name in PROGRAMS}
    with ExitStack() as programs:
        kubeconfig = programs.enter_context(control_plane.running(folder))
        api = kube.connect(str(kubeconfig))
        of_kueue = kueue_objects()
        definitions = [each for each in of_kueue if each["kind"] == "CustomResourceDefinition"]
        define(api, [*kuberay_crds, *definitions])
        # After the CRDs: the garbage collector looks for new kinds every 30 s alone.
        for name in ("kube-scheduler", "kube-controller-manager"):
            start(programs, [found[name], *_controller(folder, name, kubeconfig)], folder / f"{name}.log")
        start(programs, [found["kuberay-operator"], *_operator(kubeconfig)], folder / "kuberay.log")
        start(programs, [found["kwok"], *_kwok(folder, kubeconfig)], folder / "kwok.log")
        kueue = Kueue(folder, found, kubeconfig)
        programs.callback(kueue.stop)
        kueue.start()
        for each in of_kueue:
            if each["kind"] != "CustomResourceDefinition":
                kube.create(api, f"{WEBHOOKS}/{each['kind'].lower()}s", kueue.webhooks(each))
        yield kubeconfig, kueue


class Kueue:
    """Kueue as a process: its settings, its certificate, and the webhooks that call it on this machine."""

    def __init__(self, folder: Path, found: Mapping[str, str], kubeconfig: Path) -> None:
        self.certificates, self.settings, self.log = folder / "kueue", folder / "kueue.yaml", folder / "kueue.log"
        self._found, self._kubeconfig, self._process = found, kubeconfig, ExitStack()
        self._port, self._health = free_ports(2)
        self.certificates.mkdir()
        made = ["-keyout", str(self.certificates / "tls.key"), "-out", str(self.certificates / "tls.crt")]
        name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *made, *name]
        subprocess.run(command, check=True, capture_output=True)

    def start(self, frameworks: Sequence[str] = FRAMEWORKS) -> None:
        """Start it, and wait until it answers. Raises RuntimeError with its log's end."""
        self.settings.write_text(yaml.safe_dump(self._configuration(frameworks)))
        start(self._process, self._command(), self.log)
        _await(self.is_ready, "Kueue is not ready", self.log)

    def stop(self) -> None:
        """End it."""
        self._process.close()

    @contextmanager
    def taking(self, *frameworks: str) -> Iterator[None]:
        """Let it take these kinds alone, for a while."""
        self.stop()
        self.start(frameworks)
        try:
            yield
        finally:
            self.stop()
            self.start()

    def _configuration(self, frameworks: Sequence[str]) -> Object:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.certificates)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": [*frameworks]},
        }

    def _command(self) -> list[str]:
        """Return the command that starts it, in a mount namespace with an /etc of its own."""
        private = ["--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
        flags = [
            f"--config={self.settings}",
            f"--kubeconfig={self._kubeconfig}",
            "--feature-gates=VisibilityOnDemand=false",
        ]
        in_it = ["sh", "-c", _IN_ITS_OWN_ETC, str(self.certificates)]
        return [self._found["unshare"], *private, *in_it, self._found["kueue"], *flags]

    def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=2):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def webhooks(self, configuration: Object) -> Object:
        """Return a configuration whose webhooks are called by address: a Service would need a network of pods."""
        authority = base64.b64encode((self.certificates / "tls.crt").read_bytes()).decode()
        of_ours = []
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            if any(part in path for part in OURS):
                address = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}
                of_ours.append({**webhook, "clientConfig": address})
        return {**configuration, "webhooks": of_ours}


def _controller(folder: Path, name: str, kubeconfig: Path) -> list[str]:
    (port,) = free_ports(1)
    flags = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    flags += [f"--cert-dir={folder / name}"]
    if name == "kube-controller-manager":
        authority = folder / "apiserver.crt"
        flags += [f"--service-account-private-key-file={folder / 'sa.key'}", f"--root-ca-file={authority}"]
        flags += ["--node-monitor-grace-period=24h"]  # no kubelet says again that its node is ready
    return flags


def _operator(kubeconfig: Path) -> list[str]:
    nowhere = ["-metrics-addr=127.0.0.1:0", "-health-probe-bind-address=127.0.0.1:0"]
    return [f"-kubeconfig={kubeconfig}", "-enable-leader-election=false", *nowhere]


def _kwok(folder: Path, kubeconfig: Path) -> list[str]:
    """Return kwok's flags; it also answers for the logs of all pods."""
    (annotation,), (port,) = FAKE.items(), free_ports(1)
    (folder / LOG).write_text("")
    logs = {"logsFile": str(folder / LOG), "previousLogsFile": str(folder / LOG)}
    of_all = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterLogs", "metadata": {"name": "logs"}}
    (folder / "logs.yaml").write_text(yaml.safe_dump({**of_all, "spec": {"logs": [logs]}}))
    (folder / KUBELET_PORT).write_text(str(port))
    return [
        f"--config={folder / 'logs.yaml'}",
        f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--kubeconfig={kubeconfig}",
        f"--config={Path(__file__).with_name('stages.yaml')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={'='.join(annotation)}",
        "--enable-crds=",
    ]


def define(api: Any, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Create CRDs, and wait until objects of them can be made: Kueue exits where one cannot."""
    with ThreadPoolExecutor(4) as threads:
        for path, plural in list(threads.map(lambda each: _defined(api, each), definitions)):
            _await(partial(_is_served, api, path, plural), f"{path}/{plural} is not served")


def _defined(api: Any, definition: Mapping[str, Any]) -> tuple[str, str]:
    """Create a CRD; gives the path of its version's API, and its kind's name there."""
    from kubernetes.client import ApiextensionsV1Api

    create = ApiextensionsV1Api(api.client).create_custom_resource_definition
    create(_without_descriptions(definition), _preload_content=False, _request_timeout=LONGEST_SECONDS)
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    return f"/apis/{spec['group']}/{version}", spec["names"]["plural"]


def _is_served(api: Any, path: str, plural: str) -> bool:
    """Return whether objects can be listed, and the API server says so: clients look there first."""
    try:
        named = kube.find(api, path) or {"resources": []}
        return plural in {each["name"] for each in named["resources"]} and bool(kube.find(api, f"{path}/{plural}"))
    except KubeError as error:
        if error.status == TOO_EARLY:
            return False
        raise


def _without_descriptions(part: Any) -> Any:
    """Return a part of a CRD without what is for readers: half of its size, and of the API server's work with it."""
    if isinstance(part, list):
        return [_without_descriptions(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    return {key: _without_descriptions(each) for key, each in part.items() if not _is_description(key, each)}


def _is_description(key: str, value: Any) -> bool:
    return key == "description" and isinstance(value, str)  # a property may have that name


def _await(condition: Any, what: str, log: Path | None = None) -> None:
    try:
        wait_for(condition)
    except AssertionError:
        raise RuntimeError(f"{what}:\n{log.read_text()[-2000:] if log else ''}") from None
