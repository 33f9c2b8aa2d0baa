"""Pod Security `restricted` as a function, for pods that no API server has seen yet.

Source: kubernetes.io/docs/concepts/security/pod-security-standards, profile Restricted. The real one is asked in
tests/apiserver.
"""

from typing import Any


def violations(pod: dict[str, Any]) -> list[str]:
    """Return what `restricted` would refuse in a pod's spec; empty if the pod would be admitted."""
    problems = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    problems += [f"volume {v['name']} is of a forbidden kind" for v in pod.get("volumes", []) if set(v) - _VOLUMES]
    security = pod.get("securityContext", {})
    for container in containers(pod):
        own = container.get("securityContext", {})
        problems += [f"{container['name']} {problem}" for problem in _problems(security, own)]
        problems += [
            f"{container['name']} has a hostPort" for port in container.get("ports", []) if port.get("hostPort")
        ]
    return problems


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every container of a pod's spec, including init and ephemeral ones."""
    return [
        container for kind in ("initContainers", "containers", "ephemeralContainers") for container in pod.get(kind, [])
    ]


_VOLUMES = {
    "name",
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
}


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
    return [problem for problem, violated in checks.items() if violated]
