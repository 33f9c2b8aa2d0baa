"""The pods' access to a stack's storage: mount, variables, identity, and their objects. Pure: dicts.

The program's credentials, or those created for a run, reach pods as a file in AWS' format: the kubelet updates it in
pods that keep running, such as Ray's, and S3 clients read it again. No manifest contains a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import (
    JOB_NAME,
    STACK_ANNOTATION,
    STORAGE_ANNOTATION,
    Manifest,
    Placement,
    Size,
)
from infra.settings.rules import KEY, KEY_ID, MOUNTED, SESSION
from infra.settings.storage import Claim, Storage
from training.launch.storage.run_storage import CREDENTIALS_FILE

CLAIM = "training-storage"
"""The name of the storage claim (PersistentVolumeClaim)."""
SECRET, ROLE_SECRET = "ray-worth-it-storage", "ray-worth-it-storage-role"
"""The names of the two Secrets that can hold the credentials file: for the program's credentials, and for the
credentials of a role. The names differ, because each Secret is deleted together with the resource that created it."""
FOLDER, _, FILE = CREDENTIALS_FILE.rpartition("/")
"""The folder of a pod and the file in this folder that hold the credentials."""
FOLDER_VARIABLE, JOB_VARIABLE = "STORAGE", "JOB_NAME"
"""The variables of a run's pod with the folder of its measurement in storage, and with its Job's name."""
PROBE = Size(0.1, "512Mi")


@dataclass(frozen=True, kw_only=True)
class InPods:
    """What pods get so that they can use the stack's storage."""

    address: str
    variables: Mapping[str, str]
    claim: bool
    secret: str | None
    """The name of an existing Secret with the credentials as variables."""
    file: str | None
    """The name of the stack's own Secret with a credentials file."""
    service_account: str | None

    def mounted_in(self, pod: Manifest) -> Manifest:
        """Return the pod's spec with access to the storage."""
        spec = pod_parts.with_variables(pod, **self.variables, **(_by_file() if self.file else {}))
        if self.secret:
            spec = pod_parts.referred(spec, _references(self.secret))
        if self.file:
            # Optional: the pods of Ray are there before the first run, and so before credentials are made for it
            source: Manifest = {"secret": {"secretName": self.file, "optional": True}}
            spec = pod_parts.mounted(spec, "storage-credentials", FOLDER, source)
        if self.claim:
            source = {"persistentVolumeClaim": {"claimName": CLAIM}}
            spec = pod_parts.mounted(spec, "storage", MOUNTED, source, read_only=False)
        return {**spec, "serviceAccountName": self.service_account} if self.service_account else spec

    @property
    def flag(self) -> str:
        """Return the flag that tells a run its own folder in storage, by two variables that Kubernetes expands."""
        return f"--storage=$({FOLDER_VARIABLE})/$({JOB_VARIABLE})"

    def kept(self, pod: Manifest) -> Manifest:
        """Return the spec of a run's pod with the variables to which `flag` refers."""
        names: Manifest = {
            FOLDER_VARIABLE: {"fieldRef": {"fieldPath": f"metadata.annotations['{STORAGE_ANNOTATION}']"}},
            JOB_VARIABLE: JOB_NAME,
        }
        (main,) = pod["containers"]
        set_names = {variable["name"] for variable in main.get("env", ())}
        return pod_parts.referred(pod, {name: source for name, source in names.items() if name not in set_names})


def in_pods(storage: Storage) -> InPods:
    """Return the pods' access to the storage. Its variables turn off the cloud's metadata server for S3 clients,
    because no network policy allows calls to that server, and a client would wait for an answer."""
    variables = {**storage.variables(), **({"AWS_EC2_METADATA_DISABLED": "true"} if storage.is_remote else {})}
    return InPods(
        address=storage.address,
        variables=variables,
        claim=storage.claim is not None,
        secret=storage.secret,
        file=SECRET if storage.credentials else ROLE_SECRET if storage.role else None,
        service_account=storage.service_account,
    )


def _by_file() -> dict[str, str]:
    return {"AWS_SHARED_CREDENTIALS_FILE": CREDENTIALS_FILE}


def _references(secret: str) -> Manifest:
    """Return references to the Secret's keys. The session token is optional: long-lived keys have none."""
    return {
        name: {"secretKeyRef": {"name": secret, "key": name, **({"optional": True} if name == SESSION else {})}}
        for name in (KEY_ID, KEY, SESSION)
    }


def credentials_file(credentials: Mapping[str, str]) -> str:
    """Return the credentials in the file format that AWS' tools read:
    https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html."""
    return "\n".join(["[default]", *(f"{name.lower()} = {value}" for name, value in credentials.items()), ""])


def claim(wanted: Claim) -> Manifest:
    """Return the spec of the storage claim."""
    return {
        "accessModes": ["ReadWriteMany" if wanted.by_many_nodes else "ReadWriteOnce"],
        "resources": {"requests": {"storage": wanted.size}},
        **({"storageClassName": wanted.storage_class} if wanted.storage_class else {}),
    }


def claim_object(wanted: Claim, stack: str, namespace: str) -> Manifest:
    """Return the storage claim, annotated with its stack's name."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM,
            "namespace": namespace,
            "labels": pod_parts.labels("storage", stack),
            "annotations": {STACK_ANNOTATION: stack},
        },
        "spec": claim(wanted),
    }


def probe(address: str, way: str, placement: Placement, storage: InPods, data: str) -> Manifest:
    """Return the template of a pod that uses the storage as runs will use it, with the placement of runs, and looks for
    their `data` in the storage."""
    command = [*placement.starts("training.launch.storage.probe"), address, f"--way={way}"]
    command += [f"--data={data}"] if data else []
    main = pod_parts.container("storage-probe", placement.image, PROBE, command=command)
    pod = storage.mounted_in(pod_parts.pod(main, placement))
    return {"metadata": pod_parts.metadata(placement, "storage-probe"), "spec": pod}
