"""What is given away holds no secret, in whatever spelling, and keeps the ordinary text around it."""

from typing import Any

import pytest

from tests.unit.kube_api import TOKEN, secret
from tests.unit.secret_corpus import CASES, IN_OBJECT, KNOWN, OBJECT, PLAIN, Case
from tools.look.scrub import REPLACEMENT, Scrubber, without_data
from tools.look.scrub_forms import is_secret_name

ORDINARY = (
    "namespace ray-system",
    "rwi.example.com",
    "head-x7k.1869abcdef012345",
    f"image: quay.io/kuberay/operator@sha256:{'ab12' * 16}",
    f"docker-pullable://localhost:5000/training@sha256:{'0' * 64}",
    "secretName: ray-training-cluster",
    "automountServiceAccountToken: false",
    "RAY_AUTH_MODE=plain",
    "http://127.0.0.1:8265/api/jobs/",
    "basic information about the Basic block",
    "user 'x' cannot get resource secrets in the namespace",
    "/var/lib/kubelet/pods/3b6e7d1a-0f0e-4ed1-b0a2-5d5e9b3c2d1e/volumes/kubernetes.io~projected",
)


@pytest.fixture(scope="module")
def scrubber() -> Scrubber:
    """One that knows the Secrets of the corpus."""
    return Scrubber([secret(name, values) for name, values in KNOWN.items()])


def test_the_corpus_is_large_enough() -> None:
    """Thirty forms at least, each told apart by its name."""
    assert len({case.name for case in CASES}) == len(CASES) >= 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_secret_is_removed_from_text_and_objects(scrubber: Scrubber, case: Case) -> None:
    """Nothing of it is left, and cleaning again changes nothing more."""
    text = scrubber.clean(case.text)

    assert [part for part in case.gone if part in text] == []
    assert [part for part in case.gone if part in str(scrubber.clean_object([{"value": case.text}]))] == []
    assert REPLACEMENT in text
    assert text == scrubber.clean(text)


def test_what_a_name_calls_secret_is_removed_from_an_object(scrubber: Scrubber) -> None:
    """Environment variables, flags and annotations; what stands beside them stays."""
    cleaned = scrubber.clean_object(OBJECT)

    assert [part for part in IN_OBJECT if part in str(cleaned)] == []
    assert {"name": "EPOCHS", "value": "8"} in cleaned["env"]
    assert ["--token", REPLACEMENT, "--epochs", "8"] == cleaned["args"]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(scrubber: Scrubber, text: str) -> None:
    """An archive full of holes helps nobody, also where the Secrets are not known."""
    assert text == scrubber.clean(text)
    assert text == Scrubber(strict=True).clean(text)


def test_what_is_public_in_a_secret_stays() -> None:
    """A service account's Secret holds its namespace; a bundle of certificates is for everybody."""
    bundle = "-----BEGIN CERTIFICATE-----\nMIIBpubliccertificate\n-----END CERTIFICATE-----\n"
    public: list[dict[str, Any]] = [
        secret("account", {"namespace": "ray-system", "ca.crt": "rwi.example"}), secret("trust", {"bundle.pem": bundle})
    ]  # fmt: skip
    text = f"ray-system rwi.example MIIBpubliccertificate {PLAIN}"

    assert text == Scrubber(public).clean(text)


def test_without_the_secrets_what_looks_random_is_removed() -> None:
    """Ray's token is such a word; it has no form by which it could be told from another."""
    words = (TOKEN, "kX3vQ9/bT+0aZ7dLmWc5RfHs1NyGuJ2e4PoViBxE8q0=")
    strict = Scrubber(strict=True)

    for word in words:
        assert f"token {REPLACEMENT} sent" == strict.clean(f"token {word} sent")


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "dbPassword", "client-key-data", "AWS_SECRET_ACCESS_KEY", "auth"])
def test_names_of_secrets(name: str) -> None:
    """In the spellings of environments, files and objects."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["secretName", "imagePullSecrets", "tokenizer", "key", "authMode", "passed"])
def test_other_names(name: str) -> None:
    """What only contains such a word names something else."""
    assert not is_secret_name(name)


def test_the_files_of_a_script_are_not_given_away() -> None:
    """They are binary in a ConfigMap, and somebody's own; that they are there is said, and its texts are shown."""
    shown = without_data(
        "configmaps", {"metadata": {"name": "a"}, "data": {"b": "c"}, "binaryData": {"files.zip": "UEs="}}
    )

    assert {"metadata": {"name": "a"}, "data": {"b": "c"}, "binaryData": ["files.zip"]} == shown
