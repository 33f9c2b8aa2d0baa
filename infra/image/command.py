"""Builds the training image, and brings it to the nodes of a Minikube cluster or to a registry.

    python -m infra.image.command build|load|push|remains

Reads IMAGE, WORKLOAD, BASE_IMAGE, DATASET, DATASET_PATH, REQUIREMENTS, and for `load` PROFILE from the environment.
An image that exists under the same name is not changed: the tag is a hash of the content.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from infra.image import base as image_base
from infra.image import package_index as image_index
from infra.image.spec import BUILD_FILES, CIFAR10, DOCKERFILE, NAME, Content, modules
from infra.programs import ProgramError, run, run_main, say, succeeds, with_retries
from training.contract.provenance import PROJECT

CHUNK_BYTES = 2**20
ENGINE_SECONDS = 30.0
INDEX = "RAY_WORTH_IT_INDEX"
"""The variable that passes the package index settings to BuildKit."""
INDEX_MOUNT = "RUN --mount=type=secret,id=index,target=/run/index "
INDEX_LABEL = "ray-worth-it.index=secret"
"""The label of the images that the classic builder makes with the secret in them, by which they are removed."""


def build() -> None:
    """Build the image, unless Docker has it already."""
    image = os.environ["IMAGE"]
    if succeeds("docker", "image", "inspect", image):
        say(f"{image} is built already")
        return
    content = Content(
        os.environ["WORKLOAD"],
        os.environ["BASE_IMAGE"],
        os.environ["DATASET"],
        os.environ.get("DATASET_PATH") or None,
        os.environ.get("REQUIREMENTS") or None,
    )
    say(f"building {image} on {content.base_image}: some minutes the first time")
    base = image_base.built_from(content.base_image)
    command = ["docker", "build", "--network", "host", "--build-arg", f"BASE_IMAGE={base}", "--tag", image]
    index = image_index.variables()
    build_from = _build_with_secret if has_buildkit() else _build_classically
    with _context(content) as folder:
        build_from(command, index, folder)
    say(f"{image} is {_size(image) / 1e9:.2f} GB")


def remains() -> None:
    """Print which training images Docker keeps when a stack is destroyed, and the command line that removes them. They
    are not removed, because their tag is a hash of the content, and other stacks and checkouts may share them. Never
    fails, because a stack can be destroyed on a machine without Docker."""
    image = os.environ["IMAGE"]
    repository = image.rpartition(":")[0]
    command = ["docker", "image", "ls", "--format", "{{.Tag}} {{.Size}}", repository]
    try:
        listed = [line.split() for line in run(*command, quiet=True, seconds=ENGINE_SECONDS).splitlines()]
    except ProgramError:
        return
    sizes = {tag: size for tag, size in listed if tag != "<none>"}
    if sizes:
        registry = "" if repository == NAME else ", and its registry keeps what was pushed"
        tags = ", ".join(f"{tag} {size}" for tag, size in sizes.items())
        names = " ".join(f"{repository}:{tag}" for tag in sizes)  # Docker refuses an id that has two names
        say(f"this machine's engine keeps images {repository} (size with shared layers): {tags}{registry}")
        say(f"If no other stack needs them:  docker image rm {names}")


def has_buildkit() -> bool:
    """Return whether `docker build` supports secrets; `DOCKER_BUILDKIT=0` selects the classic builder."""
    return os.environ.get("DOCKER_BUILDKIT") != "0" and succeeds("docker", "buildx", "version")


def _build_with_secret(command: list[str], index: dict[str, str], folder: Path) -> None:
    """Build the image with the package index's settings mounted during installation only: no layer or file has them."""
    environment = os.environ | {"DOCKER_BUILDKIT": "1", INDEX: image_index.shell(index)}
    secret = ["--secret", f"id=index,env={INDEX}", "--file", str(DOCKERFILE)]
    with_retries("build of the image", lambda: run(*command, *secret, str(folder), environment=environment))


def _build_classically(command: list[str], index: dict[str, str], folder: Path) -> None:
    """Build the image with the classic builder, which has no mounts. At the end, the stages that contained a password
    are removed."""
    secret = folder / "secret" / "index"
    secret.parent.mkdir()
    secret.touch(0o600)
    secret.write_text(image_index.shell(index), encoding="utf-8")
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(classic(DOCKERFILE.read_text(encoding="utf-8")), encoding="utf-8")
    has_credentials = image_index.has_credentials(index)
    if has_credentials:
        say(
            "this engine has no BuildKit: the package index's credentials are in stages of this build until it ends, "
            "and are removed then. With Docker's buildx they are in none"
        )
    environment = os.environ | {"DOCKER_BUILDKIT": "0"}
    file = ["--file", str(dockerfile)]
    try:
        with_retries("build of the image", lambda: run(*command, *file, str(folder), environment=environment))
    finally:
        for kind in (
            ("container", "image") if has_credentials else ()
        ):  # a step that failed keeps its image by its container
            run("docker", kind, "prune", "--force", "--filter", f"label={INDEX_LABEL}", quiet=True)


def classic(dockerfile: str) -> str:
    """Return the Dockerfile for a builder without mounts: it copies the secret into the stages, which get a label."""
    return dockerfile.replace(INDEX_MOUNT, f"LABEL {INDEX_LABEL}\nCOPY secret/ /run/\nRUN ")


def load() -> None:
    """Load the image into every node that lacks it."""
    load_images(os.environ["PROFILE"], [os.environ["IMAGE"]])


def push() -> None:
    """Push the image to its registry, unless the registry has it already."""
    image = os.environ["IMAGE"]
    if succeeds("docker", "manifest", "inspect", image):
        say(f"{image} is in its registry already")
        return
    with_retries(f"push of {image}", lambda: run("docker", "push", "--quiet", image))


def load_images(profile: str, images: list[str]) -> None:
    """Load images that Docker has on this machine into every node of a Minikube profile that lacks any of them."""
    lacking = {
        node: missing for node in nodes(profile) if (missing := [image for image in images if not _has(node, image)])
    }
    wanted = sorted({image for missing in lacking.values() for image in missing})
    if wanted:
        say(f"loading {', '.join(wanted)} into {', '.join(lacking)}")
        with_retries("load of images", lambda: _import(list(lacking), wanted))


def bring_back(profile: str, images: list[str]) -> None:
    """Reload images that nodes lost, if Docker has them on this machine. A node evicts images when its disk is full."""
    load_images(profile, [image for image in images if succeeds("docker", "image", "inspect", image)])


def nodes(profile: str) -> list[str]:
    """Return the names of a profile's nodes, which are also the names of their containers."""
    listing = run("minikube", "--profile", profile, "node", "list", quiet=True)
    return [line.split()[0] for line in listing.splitlines() if line.strip()]


def _has(node: str, image: str) -> bool:
    """Return whether a node's containerd has the image, by its name or by the full name that containerd gives it."""
    listed = run("docker", "exec", node, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet", quiet=True)
    return bool({image, f"docker.io/{image}", f"docker.io/library/{image}"} & set(listed.split()))


def _import(into: list[str], images: list[str]) -> None:
    """Import the images into all nodes from one stream. `minikube image load` would write a compressed copy first."""
    take = ["ctr", "--namespace", "k8s.io", "images", "import", "-"]
    with ExitStack() as open_programs:
        save = open_programs.enter_context(subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE))
        takers = [
            open_programs.enter_context(
                subprocess.Popen(
                    ["docker", "exec", "--interactive", node, *take], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
                )
            )
            for node in into
        ]
        _copy_to_all(save, takers)
    failed = [node for node, taker in zip(into, takers, strict=True) if taker.returncode]
    if save.returncode or failed:
        raise ProgramError(f"{', '.join(images)} could not be loaded into {', '.join(failed) or 'any node'}")


def _copy_to_all(source: "subprocess.Popen[bytes]", takers: list["subprocess.Popen[bytes]"]) -> None:
    """Copy the output of one program to the programs on all nodes. A node that stops reading is skipped, and its exit
    code reports the failure."""
    while chunk := source.stdout.read(CHUNK_BYTES) if source.stdout else b"":
        for taker in takers:
            with suppress(BrokenPipeError):
                if taker.stdin:
                    taker.stdin.write(chunk)
    for taker in takers:
        with suppress(BrokenPipeError):
            if taker.stdin:
                taker.stdin.close()


@contextmanager
def _context(content: Content) -> Iterator[Path]:
    """Yield a temporary folder that contains only the files that the build needs."""
    with tempfile.TemporaryDirectory(prefix="ray-worth-it-image-") as name:
        folder = Path(name)
        _write_certificates(folder / "host")
        _copy([PROJECT / "pyproject.toml", PROJECT / "uv.lock"], folder / "locked")
        _copy(list(BUILD_FILES), folder / "build")
        _write(content.more(), folder / "more" / "requirements.txt")
        _copy_modules(modules(content.workload), folder / "app")
        _copy([PROJECT / "uv.lock"], folder / "app")
        (folder / "data").mkdir()
        if content.has_cifar10:
            source = Path(content.dataset_path) if content.dataset_path else _downloaded()
            _copy([path for path in sorted(source.iterdir()) if path.is_file()], folder / "data" / CIFAR10)
        yield folder


def _copy_modules(files: list[Path], folder: Path) -> None:
    """Copy modules to the same paths below `folder` as they have in the project."""
    for file in files:
        _copy([file], folder / file.parent.relative_to(PROJECT))


def _copy(files: list[Path], folder: Path) -> None:
    """Copy files with a constant modification time, so that the builder's cache recognises an unchanged file."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = folder / file.name
        shutil.copyfile(file, target)
        target.chmod(0o644)
        os.utime(target, (0, 0))


def _write(text: str, file: Path) -> None:
    """Write a file with a constant modification time, as `_copy` does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    os.utime(file, (0, 0))


def _write_certificates(folder: Path) -> None:
    """Copy the certificates with which this machine trusts its package index. Certificates are not secret."""
    folder.mkdir()
    certificates = image_index.certificates()
    if certificates:
        _copy([certificates], folder)
        (folder / certificates.name).rename(folder / Path(image_index.CERTIFICATES_IN_BUILD).name)


def _downloaded() -> Path:
    """Return the folder of CIFAR-10, which is downloaded once for all pods, and which Keras keeps in its cache."""
    code = "from training.workloads.cnn.sources import download_cifar10; print(download_cifar10())"
    printed = run(sys.executable, "-c", code, quiet=True, cwd=PROJECT)
    return Path(printed.strip().splitlines()[-1])


def _size(image: str) -> int:
    return int(run("docker", "image", "inspect", "--format", "{{.Size}}", image, quiet=True))


if __name__ == "__main__":
    run_main({"build": build, "load": load, "push": push, "remains": remains})
