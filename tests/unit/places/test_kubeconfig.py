"""A user's kubeconfig becomes one context that stands by itself; one that can't be used is one message with its fix."""

import base64
import hashlib
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.places.cluster.api import kube
from infra.places.kubernetes import kubeconfig
from infra.places.kubernetes.kubeconfig import KubeconfigError, NotHereError
from tests.golden import Wording
from tests.unit.settings_machine import only_problem, settings

AUTHORITY = b"-----BEGIN CERTIFICATE-----\n"
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "staging",
    "contexts": [
        {"name": "staging", "context": {"cluster": "c", "user": "u", "namespace": "elsewhere"}},
        {"name": "production", "context": {"cluster": "p", "user": "u"}},
    ],
    "clusters": [
        {"name": "c", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority": "ca.crt"}},
        {"name": "p", "cluster": {"server": "https://10.0.0.2:6443"}},
    ],
    "users": [{"name": "u", "user": {"client-certificate": "me.crt", "client-key": "/keys/me", "token": "t"}}],
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The standard kubeconfig of a user, with the authority's file beside it."""
    monkeypatch.setattr(kubeconfig, "PROJECT", tmp_path / "p")
    monkeypatch.setattr(kube, "PROJECT", tmp_path / "p")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    (tmp_path / "ca.crt").write_bytes(AUTHORITY)
    (tmp_path / "config").write_text(yaml.safe_dump(CONFIG))
    return tmp_path / "config"


def test_one_context_stands_by_itself(file: Path) -> None:
    """The authority is in it: its file may become another's. Credentials stay the user's files, found from anywhere."""
    selected = kubeconfig.select(None, "staging")

    data = base64.b64encode(AUTHORITY).decode()
    user = {"client-certificate": str(file.parent / "me.crt"), "client-key": "/keys/me", "token": "t"}
    assert {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "staging",
        "contexts": [{"name": "staging", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": data}}],
        "users": [{"name": "u", "user": user}],
    } == yaml.safe_load(selected.text)
    assert hashlib.sha256(AUTHORITY).hexdigest() == selected.authority
    assert all(part in str(selected) for part in ("staging", str(file), "https://10.0.0.1:6443"))
    assert "" == kubeconfig.select(None, "production").authority


def test_files_are_merged_as_kubectl_does(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that has a name decides; a path starts at the folder of its own file; what is not there is left out."""
    first = tmp_path / "a" / "config"
    first.parent.mkdir()
    first.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"tokenFile": "token"}}]}))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", str(first), str(tmp_path / "none"), str(file)]))
    (user,) = kubeconfig.select(None, "staging").content["users"]

    assert {"tokenFile": str(first.parent / "token")} == user["user"]
    assert "staging" == kubeconfig.current_context(None)


def test_credentials_of_a_program_are_kept(file: Path) -> None:
    """With its path from the kubeconfig's folder; one that PATH has keeps its name, one that is missing is said so."""

    def user_with(command: str) -> Any:
        program = {"command": command, "args": ["get-token"], "installHint": "Get it from example.com"}
        changed = CONFIG | {"users": [{"name": "u", "user": {"exec": program}}]}
        file.write_text(yaml.safe_dump(changed))
        return kubeconfig.select(None, "staging").content["users"][0]["user"]["exec"]

    (file.parent / "helper").touch(mode=0o700)
    assert str(file.parent / "./helper") == user_with("./helper")["command"]
    assert {"command": "sh", "args": ["get-token"]}.items() <= user_with("sh").items()
    with pytest.raises(KubeconfigError, match=r"(?s)`cloud-login`.*example\.com"):
        user_with("cloud-login")


def changed(change: Callable[[Any], object]) -> str:
    """The kubeconfig after a change."""
    config = deepcopy(CONFIG)
    change(config)
    return yaml.safe_dump(config)


def with_values(part: str, **values: object) -> str:
    """The kubeconfig with these values in its first cluster, context or user; what is None is left out."""

    def put(config: Any) -> None:
        config[f"{part}s"][0][part] |= values
        for name in [name for name, value in values.items() if value is None]:
            del config[f"{part}s"][0][part][name]

    return changed(put)


IMPERSONATION: dict[str, object] = {
    "as": "limited",
    "as-uid": "1",
    "as-groups": ["limited"],
    "as-user-extra": {"reason": ["audit"]},
}
"""What kubectl has for it."""
WRONG: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": ("\n\n", "is empty"),
    "binary": (bytes(range(256)), "is no YAML text"),
    "no YAML": ("a: [", "is no YAML text"),
    "tab": ("a:\n\t- b", "is no YAML text"),
    "deep": ("[" * 100_000, "is no YAML text"),
    "a text": ("hello", "holds no kubeconfig"),
    "a list": ("[1]", "holds no kubeconfig"),
    "contexts are a text": ("contexts: all", "contexts is no list"),
    "contexts without names": ("contexts: [{}]", "contexts is no list"),
    "clusters are a map": (changed(lambda config: config.update(clusters={"c": {}})), "clusters is no list"),
    "users of a wrong shape": ("users: [{name: u, user: me}]", "users is no list"),
    "no contexts": ("kind: Config", "has no context staging; it has none"),
    "another context": (
        changed(lambda config: config["contexts"].pop(0)),
        r"has no context staging; it has production:\n  pulumi config set kubeContext",
    ),
    "context without a cluster": (
        with_values("context", cluster=None),
        r"names no cluster:\n  kubectl config set-context staging --cluster=NAME",
    ),
    "context without a user": (
        with_values("context", user=None),
        r"names no user:\n  kubectl config set-context staging --user=NAME",
    ),
    "cluster that is not there": (changed(lambda config: config["clusters"].pop(0)), r"the cluster c, which .*: p\)"),
    "user that is not there": (changed(lambda config: config.pop("users")), r"the user u, which .*: none\)"),
    **{
        f"impersonation by {key}": (
            with_values("user", **{key: value}),
            rf"(?s)user u of .* has {key}, .*pulumi config set kubeContext NAME.*kubectl config unset users\.u\.{key}",
        )
        for key, value in IMPERSONATION.items()
    },
    "no server": (with_values("cluster", server=None), "has the server \\(none\\)"),
    "no certificate": (
        with_values("cluster", server="http://10.0.0.1"),
        "has the server http://10.0.0.1, and https:// is allowed",
    ),
    "insecure": (with_values("cluster", **{"insecure-skip-tls-verify": True}), "has insecure-skip-tls-verify"),
    "insecure as text": (with_values("cluster", **{"insecure-skip-tls-verify": "yes"}), "has insecure-skip-tls-verify"),
    "lost authority": (
        with_values("cluster", **{"certificate-authority": "none.crt"}),
        r"names the certificate authority /.*/none\.crt",
    ),
    "authority is no base64": (with_values("cluster", **{"certificate-authority-data": "%"}), "no base64"),
}


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_a_kubeconfig_that_can_t_be_used_is_one_message(content: str | bytes, said: str, file: Path) -> None:
    """What is wrong in which file, and a line to type."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(KubeconfigError, match=said) as refused:
        kubeconfig.select(None, "staging")
    assert str(file) in str(refused.value)
    assert "\n  " in str(refused.value)


def make_sparse(path: Path) -> None:
    """A file that is too long, of which nothing was written."""
    path.touch()
    os.truncate(path, kubeconfig.LONGEST_BYTES + 1)


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero"), make_sparse],
    ids=["folder", "pipe", "device", "huge"],
)
def test_what_is_no_file_is_not_waited_for(make: Callable[[Path], object], file: Path) -> None:
    """A pipe that nobody writes to, a device without an end."""
    file.unlink()
    make(file)

    with pytest.raises(KubeconfigError, match="pulumi config set kubeconfig"):
        kubeconfig.select(None, "staging")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_said_so(file: Path) -> None:
    """With the line that allows it."""
    file.chmod(0)

    with pytest.raises(KubeconfigError, match=r"(?s)Permission denied.*chmod u\+r"):
        kubeconfig.select(None, "staging")


@pytest.mark.parametrize("setting", ["/nowhere/config", "~nobody-of-this-name/config", "a\0b", "a" * 5000])
def test_a_path_that_leads_nowhere_is_said_so(setting: str, file: Path) -> None:
    """As this machine has no such cluster, a preview goes on where the path can be one."""
    with pytest.raises(KubeconfigError):
        kubeconfig.select(setting, "staging")
    with pytest.raises(NotHereError, match="/nowhere/config"):
        kubeconfig.select("/nowhere/config", "staging")


def test_the_stack_s_own_file_is_for_this_user_alone(file: Path) -> None:
    """Folder and file, whatever the umask; it is whole or as it was."""
    before = os.umask(0)
    try:
        kube.write_own("s", "first")
        kube.write_own("s", "second")
    finally:
        os.umask(before)
    own = file.parent / "p" / kube.own_path("s")

    assert "second" == kube.own_text("s")
    assert [0o600, 0o700] == [path.stat().st_mode & 0o777 for path in (own, own.parent)]
    assert [own] == list(own.parent.iterdir())


def test_a_context_is_named(file: Path, wording: Wording) -> None:
    """Refused at preview without one, with the line that sets the current one; it is not taken by itself."""
    place = {"target": "kubernetes", "image": "a/b:1"}
    found = only_problem(**place)

    assert "kubeContext not set" in found
    assert "pulumi config set kubeContext staging" in found
    wording("cluster", found)
    file.write_text(changed(lambda config: config.update({"current-context": "production"})))
    assert "pulumi config set kubeContext production" in only_problem(**place)
    file.unlink()
    assert "pulumi config set kubeContext staging" in only_problem(**place)
    assert settings(**place, kubeContext="staging").cluster


def test_a_home_of_nobody_is_no_traceback() -> None:
    """The path is taken as it is written, and not found."""
    found = settings(target="kubernetes", image="a/b:1", kubeContext="a", kubeconfig="~nobody-of-this-name/config")

    assert found.cluster
    assert str(found.cluster.kubeconfig).endswith("/~nobody-of-this-name/config")
