"""A Kubernetes API server with its etcd and nothing else: no node, no scheduler, no container.

It validates, defaults and admits (or refuses) as that of a cluster does, and starts in seconds without root or docker.
"""

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from tests import leftovers
from tests.limits import LEFT_SECONDS, LONGEST_SECONDS, wait_for
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT.parent / "shared" / "offline-cluster" / "env.sh"
"""A file that puts a cluster's programs on PATH, where CLUSTER_ENV names no other."""
PROGRAMS = ("kube-apiserver", "etcd", "kubeadm")
USER, USERS_TOKEN = "user", "users-token"
"""Somebody who has no rights but those that a test gives."""


def search_path() -> str:
    """PATH with what the cluster's environment file adds to it."""
    path = os.environ.get("PATH", "")
    file = Path(os.environ.get("CLUSTER_ENV") or ENVIRONMENT)
    if not file.is_file():
        return path
    command = ["bash", "-c", '. "$0" && printf %s "$PATH"', str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True).stdout


def missing_programs() -> list[str]:
    """Those that are nowhere to be found."""
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """Start both programs; gives a kubeconfig for an administrator. Raises RuntimeError with the log's end."""
    found = {name: str(shutil.which(name, path=search_path())) for name in PROGRAMS}
    store, peer, port = free_ports(3)
    subprocess.run(
        [found["kubeadm"], "init", "phase", "certs", "sa", "--cert-dir", str(folder)], capture_output=True, check=True
    )
    (folder / "tokens.csv").write_text(f"a-token,administrator,1,system:masters\n{USERS_TOKEN},{USER},2\n")
    with ExitStack() as programs:
        for name, flags in {"etcd": _etcd(folder, store, peer), "kube-apiserver": _server(folder, store, port)}.items():
            start(programs, [found[name], *flags], folder / f"{name}.log")
        _await_ready(port, folder / "kube-apiserver.log")
        yield _write_kubeconfig(folder, port)


def start(programs: ExitStack, command: Sequence[str], log_path: Path) -> "subprocess.Popen[bytes]":
    """Start a program that ends with `programs`."""
    log = programs.enter_context(log_path.open("w"))
    started = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    leftovers.share(started.pid)  # of a cluster of several tests, one of which may start it once more
    programs.callback(_stop, started)
    return started


def _etcd(folder: Path, store: int, peer: int) -> list[str]:
    here, other = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={other}",
        f"--initial-advertise-peer-urls={other}",
        f"--initial-cluster=default={other}",
        "--unsafe-no-fsync",
    ]


def _server(folder: Path, store: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",  # where it makes its own certificate
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        f"--token-auth-file={folder / 'tokens.csv'}",
    ]


def _await_ready(port: int, log: Path) -> None:
    try:
        wait_for(lambda: _is_ready(port, log.with_name("apiserver.crt")))
    except AssertionError:
        raise RuntimeError(f"kube-apiserver is not ready:\n{log.read_text()[-2000:]}") from None


def _is_ready(port: int, certificate: Path) -> bool:
    import ssl

    if not certificate.is_file():
        return False
    try:
        context = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=5, context=context):
            return True
    except (OSError, urllib.error.URLError):
        return False


def _write_kubeconfig(folder: Path, port: int) -> Path:
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "apiserver.crt")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bare",
        "clusters": [{"name": "bare", "cluster": server}],
        "users": [{"name": "administrator", "user": {"token": "a-token"}}],
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "administrator"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=LEFT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
