"""Pod Security `restricted` as a function, for tests of pods that the API server never sees in a unit test.

Source: kubernetes.io/docs/concepts/security/pod-security-standards, profile Restricted. The real one is asked in
tests/cluster.
"""

from typing import Any


def violations(pod: dict[str, Any]) -> list[str]:
    """What `restricted` would refuse in a pod's spec; empty when it is admitted."""
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    found += [f"volume {v['name']}" for v in pod.get("volumes", []) if set(v) - {"name"} - _VOLUMES]
    security = pod.get("securityContext", {})
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        own = container.get("securityContext", {})
        found += [f"{container['name']}: {problem}" for problem in _problems(security, own)]
        found += [f"{container['name']}: hostPort" for port in container.get("ports", []) if "hostPort" in port]
    return found


_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def _problems(pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
    effective = pod | container
    checks = {
        "may escalate privileges": container.get("allowPrivilegeEscalation") is not False,
        "keeps capabilities": container.get("capabilities", {}).get("drop") != ["ALL"],
        "adds capabilities": bool(container.get("capabilities", {}).get("add")),
        "is privileged": bool(container.get("privileged")),
        "may run as root": effective.get("runAsNonRoot") is not True or effective.get("runAsUser") == 0,
        "has no seccomp profile": effective.get("seccompProfile", {}).get("type")
        not in ("RuntimeDefault", "Localhost"),
    }
    return [problem for problem, found in checks.items() if found]
