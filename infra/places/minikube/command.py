"""The commands with which Pulumi creates, changes and deletes a Minikube cluster. Reads an
`infra.places.minikube.spec.Cluster`.

    python -m infra.places.minikube.command create|update|delete

A file in the project's state folder says which profile is this stack's; a profile without it is never touched.
"""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from infra.image.command import load_images, nodes
from infra.places.cluster.api.kube import own_folder
from infra.places.minikube import doctor
from infra.places.minikube.spec import Cluster, unchangeable
from infra.programs import ProgramError, run, run_main, say, with_retries
from training.contract.codec import write_whole
from training.contract.provenance import PROJECT
from training.machine.command_line import again

START_SECONDS = 900.0
API_SECONDS = 120.0


def create() -> None:
    """Create the cluster, or resume a creation that was interrupted. Print the first node's address."""
    cluster = _wanted()
    doctor.refuse(cluster)
    exists = _exists(cluster.profile)
    _refuse_foreign(cluster, exists)
    if exists and not started(cluster.profile):
        # A restarted Minikube keeps its nodes and adds none, or waits for one that never comes.
        say(f"{cluster.profile} is incomplete: deleting and recreating it")
        _delete(cluster)
        exists = False
    if exists:
        _start_again(cluster)
    else:
        _mark(cluster, started=False)
        _start(cluster)
    _add_nodes(cluster)
    _finish(cluster)


def update() -> None:
    """Change what Minikube can change in an existing cluster: add nodes and addons, and load images."""
    cluster, last_created = _wanted(), None
    if _exists(cluster.profile):
        last_created = _recorded(cluster.profile)
    if last_created is None:
        raise ProgramError(lost(cluster.profile))
    _refuse_change(last_created, cluster)
    _start(replace(cluster, nodes=last_created.nodes))
    _add_nodes(cluster)
    _finish(cluster)


def delete() -> None:
    """Delete the cluster, if it exists, and the files about it. Raise ProgramError if the cluster was made on another
    machine, or belongs to another stack."""
    cluster = _wanted()
    if _exists(cluster.profile):
        _refuse_foreign(cluster, exists=True)
        _delete(cluster)
    elif not _marker(cluster.profile).exists():
        raise ProgramError(elsewhere(cluster.profile))
    elif _recorded(cluster.profile):
        _delete_network(cluster.profile)
    _marker(cluster.profile).unlink(missing_ok=True)
    (PROJECT / cluster.kubeconfig).unlink(missing_ok=True)


def resume(profile: str) -> None:
    """Start a stopped cluster that was made here. Does nothing if the cluster runs, or was never created."""
    cluster = _recorded(profile)
    if cluster and _exists(profile) and not _runs(profile):
        say(f"{profile} is stopped: starting it")
        _start(cluster)


def lost(profile: str) -> str:
    """Return a text that explains what to do if the cluster was deleted without Pulumi."""
    return (
        f"the Minikube cluster {profile} is gone, though the stack made it: it was deleted by other means.\n"
        f"Everything in it is lost; to recreate it:\n  {again('destroy', 'up')}"
    )


def elsewhere(profile: str) -> str:
    """Return a text that says why an unknown cluster is not forgotten: its nodes would keep running, in no state."""
    marker = _marker(profile).relative_to(PROJECT)
    return (
        f"no Minikube cluster {profile} was made from this folder, and this machine has none: nothing was deleted.\n"
        "Destroy it where it was made. If it is gone there, say so, and destroy again:\n"
        f"  mkdir -p {marker.parent} && echo '{{}}' > {marker}"
    )


def trouble(profile: str) -> str:
    """Return why a created cluster cannot be used, and how to fix it; empty if it runs, or was not created yet."""
    cluster = _recorded(profile) if started(profile) else None
    if cluster is None:
        return ""
    if not _exists(profile):
        return lost(profile)
    if len(nodes(profile)) < cluster.nodes:
        return (
            f"the Minikube cluster {profile} has {len(nodes(profile))} of {cluster.nodes} nodes; to add one:\n"
            f"  MINIKUBE_MEMORY={cluster.memory_mib}mb {_line(cluster, 'node add')}"
        )
    if _runs(profile):
        return ""
    return f"the Minikube cluster {profile} is stopped (`{again('up')}` starts it):\n  {_line(cluster, 'start')}"


def _wanted() -> Cluster:
    return Cluster.from_environment(os.environ)


def _start(cluster: Cluster) -> None:
    own_folder()
    run(*cluster.start_command(), seconds=START_SECONDS, environment=_environment(cluster))
    (PROJECT / cluster.kubeconfig).chmod(0o600)


def _start_again(cluster: Cluster) -> None:
    """Start a complete cluster that exists, for example after the stack's state was lost. It is never deleted here,
    because runs may have kept files in it."""
    last_created = _recorded(cluster.profile)
    if last_created:
        _refuse_change(last_created, cluster)
    try:
        _start(cluster)
    except ProgramError as failure:
        raise ProgramError(
            f"{failure}\n{cluster.profile} was complete and does not start. It is not deleted, because runs may have"
            " kept files in it.\n"
            f"`{again('up')}` retries; or, if nobody needs what is in it:  "
            f"{_line(cluster, 'delete')}"
        ) from failure


def _add_nodes(cluster: Cluster) -> None:
    """Add the missing nodes. Only MINIKUBE_MEMORY gives an added node other memory than Minikube's default."""
    for _ in range(cluster.nodes - len(nodes(cluster.profile))):
        say(f"{cluster.profile}: adding a node")
        command = ["minikube", "--profile", cluster.profile, "node", "add"]
        size = {"MINIKUBE_MEMORY": f"{cluster.memory_mib}mb"}
        run(*command, seconds=START_SECONDS, environment=_environment(cluster) | size)


def _finish(cluster: Cluster) -> None:
    """Wait for the API server, record the cluster, load its images, and print its address, for Pulumi's state."""
    with_retries("API server", lambda: _answer(cluster))
    _mark(cluster, started=True)
    load_images(cluster.profile, list(cluster.images))
    print(run("minikube", "--profile", cluster.profile, "ip", quiet=True).strip())


def _answer(cluster: Cluster) -> None:
    command = ["minikube", "--profile", cluster.profile, "status", "--output", "json"]
    run(*command, quiet=True, seconds=API_SECONDS, environment=_environment(cluster))


def _environment(cluster: Cluster) -> dict[str, str]:
    """Return the environment variables for Minikube, with the stack's own kubeconfig, so that the user's kubeconfig and
    its current context do not change."""
    return {**os.environ, "KUBECONFIG": str(PROJECT / cluster.kubeconfig)}


def _line(cluster: Cluster, verb: str) -> str:
    """Return a command line for the user. It sets KUBECONFIG, because Minikube would otherwise write a context and a
    client key into the user's own kubeconfig, and make the context the current one."""
    kubeconfig = shlex.quote(str(PROJECT / cluster.kubeconfig))
    return f"KUBECONFIG={kubeconfig} minikube --profile {cluster.profile} {verb}"


def _delete(cluster: Cluster) -> None:
    run("minikube", "delete", "--profile", cluster.profile, seconds=START_SECONDS, environment=_environment(cluster))
    _delete_network(cluster.profile)


def _delete_network(profile: str) -> None:
    """Delete the cluster's Docker network, which Minikube leaves behind (seen with Docker 20.10)."""
    label = f"label=name.minikube.sigs.k8s.io={profile}"
    for network in run("docker", "network", "ls", "--quiet", "--filter", label, quiet=True).split():
        run("docker", "network", "rm", network, quiet=True)


def _refuse_change(recorded: Cluster, wanted: Cluster) -> None:
    changes = unchangeable(recorded, wanted)
    if changes:
        raise ProgramError(
            f"Minikube can't change this of a cluster that exists: {'; '.join(changes)}.\n"
            f"To recreate it:  {again('destroy', 'up')}; or set the value back"
        )


def _refuse_foreign(cluster: Cluster, exists: bool) -> None:
    marker = _read_marker(cluster.profile)
    if not exists or (marker and marker["stack"] == cluster.stack):
        return
    owner = f"is the stack {marker['stack']}'s" if marker else "was not made by this stack"
    raise ProgramError(
        f"a Minikube profile {cluster.profile} exists, and it {owner}: it was not changed.\n"
        "Choose another name:  pulumi config set minikubeProfile NAME\n"
        f"or, if nobody needs it:  minikube delete --profile {cluster.profile}"
    )


def _exists(profile: str) -> bool:
    """Return whether Minikube knows the profile in any state, also if the cluster is broken."""
    listed = json.loads(run("minikube", "profile", "list", "--output", "json", "--light", quiet=True))
    return any(entry["Name"] == profile for kind in ("valid", "invalid") for entry in listed.get(kind) or [])


def _runs(profile: str) -> bool:
    states = [
        run("docker", "container", "inspect", "--format", "{{.State.Running}}", node, quiet=True).strip()
        for node in nodes(profile)
    ]
    return all(state == "true" for state in states)


def _marker(profile: str) -> Path:
    return PROJECT / ".state" / "minikube" / f"{profile}.json"


def _mark(cluster: Cluster, *, started: bool) -> None:
    write_whole(
        _marker(cluster.profile), json.dumps({"stack": cluster.stack, "started": started, "cluster": asdict(cluster)})
    )


def _read_marker(profile: str) -> Mapping[str, object]:
    try:
        return dict(json.loads(_marker(profile).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def _recorded(profile: str) -> Cluster | None:
    """Return the cluster as it was last created; None if it was never created."""
    data = _read_marker(profile).get("cluster")
    return Cluster.from_dict(data) if isinstance(data, dict) else None


def started(profile: str) -> bool:
    """Return whether the cluster was completely started before."""
    return _read_marker(profile).get("started") is True


if __name__ == "__main__":
    run_main({"create": create, "update": update, "delete": delete})
