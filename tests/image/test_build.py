"""A real build of the image: what this machine needs to reach packages stays out of what goes to a registry.

Of the packages a single small one is installed; the Dockerfile and its context are the real ones.
"""

import base64
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from infra.image import command as image
from infra.image.base import identity
from infra.programs import ProgramError, succeeds
from infra.settings.rules import BASE_IMAGE
from tests.cluster.place import BASE
from training.contract.provenance import PROJECT

MARKER = "marker-of-a-credential"
FOREIGN = "marker-of-another-password"
"""Of what has nothing to do with the index: it never leaves this machine's home."""
UPSTREAM = "https://pypi.org"
PACKAGE = "six"
TAG = "ray-worth-it/test-build:1"
TEST_BASE = "ray-worth-it/test-build-base:1"
LABEL = "ray-worth-it.test=build"
"""On the base, and so on every stage: by it the stages that hold the credentials are found and removed."""


def docker(*arguments: str, given: str = "") -> str:
    """What a docker command prints; `given` is its stdin."""
    return subprocess.run(["docker", *arguments], input=given, capture_output=True, text=True, check=True).stdout


@dataclass
class Index:
    """A package index that wants a password, and sends who has it to the public one."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    """The paths that were asked for with the password."""

    @property
    def address(self) -> str:
        """As people write it into PIP_INDEX_URL who have the password in ~/.netrc."""
        return f"http://127.0.0.1:{self.port}/simple"


@pytest.fixture
def index() -> Iterator[Index]:
    """Serves on the loopback, which the build shares."""
    found = Index()
    password = "Basic " + base64.b64encode(f"user:{MARKER}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get("Authorization") == password
            if is_known:
                found.asked.append(self.path)
            self.send_response(302 if is_known else 401)
            self.send_header(*(("Location", UPSTREAM + self.path) if is_known else ("WWW-Authenticate", "Basic")))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        server.shutdown()


@pytest.fixture
def base_image() -> Iterator[str]:
    """An image with Python that the engine has, with a label; skips where there is no engine or no such image.

    At the end all that was built on it goes.
    """
    if not succeeds("docker", "info"):
        pytest.skip("no docker, or its daemon does not answer")
    wanted = [BASE_IMAGE, BASE]
    found = [name for name in wanted if succeeds("docker", "image", "inspect", name)]
    if not found:
        pytest.skip(f"the engine has none of {', '.join(wanted)}: `docker pull {wanted[0]}`")
    docker("build", "--tag", TEST_BASE, "-", given=f"FROM {found[0]}\nLABEL {LABEL}\n")
    yield TEST_BASE
    docker("rmi", "--force", TEST_BASE)
    docker("image", "prune", "--force", "--filter", f"label={LABEL}")


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    """A project whose image holds one package, locked as the real project locks it."""
    (entry,) = re.findall(
        rf'\[\[package\]\]\nname = "{PACKAGE}"\n.*?\n\n', (PROJECT / "uv.lock").read_text(), re.DOTALL
    )
    needs = f'[package.optional-dependencies]\nimage = [{{ name = "{PACKAGE}" }}]\n'
    root = f'[[package]]\nname = "small"\nversion = "0"\nsource = {{ virtual = "." }}\n\n{needs}'
    (tmp_path / "uv.lock").write_text(f'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n\n{entry}{root}')
    head = '[project]\nname = "small"\nversion = "0"\nrequires-python = ">=3.11"\n'
    extra = f'[project.optional-dependencies]\nimage = ["{PACKAGE}"]\n'
    (tmp_path / "pyproject.toml").write_text(head + extra)
    return tmp_path


@pytest.fixture(params=["BuildKit", "classic"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two that this machine has."""
    if request.param == "classic":
        monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    elif not image.has_buildkit():
        pytest.skip("no BuildKit: `docker buildx version` fails")
    return str(request.param)


@pytest.fixture
def machine(
    base_image: str, small_project: Path, index: Index, builder: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A machine with passwords in each place where people have them; its index's is in ~/.netrc. Its home is given, and
    the image that it builds is removed at the end.
    """
    home = small_project / "home"
    (home / ".config" / "uv").mkdir(parents=True)
    others = f"machine github.com login user password {FOREIGN}\n"
    (home / ".netrc").write_text(f"{others}machine 127.0.0.1 login user password {MARKER}\n")
    (home / ".config" / "uv" / "uv.toml").write_text(f'publish-url = "https://user:{FOREIGN}@example.com"\n')
    for name, value in {
        "HOME": str(home),
        "PIP_INDEX_URL": index.address,
        "UV_DEFAULT_INDEX": index.address,
        "PIP_TRUSTED_HOST": "somebody's.example.com",
        "IMAGE": TAG,
        "BASE_IMAGE": identity(base_image, pull=False),
        "WORKLOAD": "cnn",
        "DATASET": "digits",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(image, "PROJECT", small_project)
    monkeypatch.setattr(image, "modules", lambda workload: [])  # of the real project, of which the small one has none
    succeeds("docker", "rmi", "--force", TAG)
    yield home
    succeeds("docker", "rmi", "--force", TAG)


@pytest.mark.usefixtures("machine")
def test_no_credential_is_in_the_image_or_its_history(index: Index) -> None:
    """They reach the commands that install, and neither a layer, nor a variable, nor a line of the history."""
    image.build()

    assert {"/simple/uv/", f"/simple/{PACKAGE}/"} <= set(index.asked)

    for told in (docker("history", "--no-trunc", TAG), docker("image", "inspect", TAG)):
        assert MARKER not in told
        assert f":{index.port}" not in told
    (found,) = json.loads(docker("image", "inspect", TAG))
    assert "1000:1000" == found["Config"]["User"]
    code = f"import os, {PACKAGE}; print(os.getuid())"
    assert "1000" == docker("run", "--rm", TAG, "python", "-c", code).strip()


@pytest.mark.usefixtures("machine")
def test_no_credential_is_left_in_the_engine_or_on_this_machine(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no image that the build leaves, also those without a name; in no cache, where the engine's files can be read;
    and in no temporary file.
    """
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = set(docker("images", "--all", "--quiet", "--no-trunc").split())
    image.build()
    left = sorted(set(docker("images", "--all", "--quiet", "--no-trunc").split()) - before)
    root = Path(docker("info", "--format", "{{.DockerRootDir}}").strip())

    assert left
    for secret in (MARKER, FOREIGN):
        assert [] == [one for one in left if _saved_with(one, secret)]
        if os.access(root, os.R_OK | os.X_OK):
            assert "" == _files_with(root, secret)
    assert [] == list(temporary.iterdir())


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("tampered", ["another hash", "no hash"])
def test_a_package_that_the_lock_does_not_vouch_for_is_not_installed(small_project: Path, tampered: str) -> None:
    """Neither one whose hash differs, nor one that has none; the build that failed leaves no stage with a password."""
    lock = small_project / "uv.lock"
    new = r'hash = "sha256:' + "0" * 64 + '"' if tampered == "another hash" else "size = 1"
    lock.write_text(re.sub(r'hash = "sha256:[0-9a-f]{64}"', new, lock.read_text()).replace("size = 1, size", "size"))

    with pytest.raises(ProgramError, match=r"(?i)hash"):
        image.build()
    assert not succeeds("docker", "image", "inspect", TAG)
    assert "" == docker(
        "images", "--all", "--quiet", "--filter", f"label={image.INDEX_LABEL}", "--filter", f"label={LABEL}"
    )


def _saved_with(name: str, secret: str) -> bool:
    with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as saved:
        assert saved.stdout
        return bool(occurrences(saved.stdout, secret.encode()))


def _files_with(folder: Path, secret: str) -> str:
    """Their names; what containers write meanwhile comes and goes."""
    command = ["grep", "--recursive", "--files-with-matches", "--no-messages", "--fixed-strings", secret, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def occurrences(stream: "subprocess._FILE", wanted: bytes) -> list[int]:
    """Where a text stands in a stream, also across two reads of it."""
    found, kept, at = [], b"", 0
    while chunk := stream.read(2**20):  # type: ignore[union-attr]
        part = kept + chunk
        if (index := part.find(wanted)) >= 0:
            found.append(at + index)
        kept = part[-len(wanted) :]
        at += len(part) - len(kept)
    return found
