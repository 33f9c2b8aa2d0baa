"""How this machine reaches packages, as a build is told: what is taken, what is left, and what a shell makes of it."""

import os
import subprocess
from pathlib import Path

import pytest

from infra.image import package_index as image_index


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in an environment that names no index."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(image_index, "_PIP_FILES", ("~/.config/pip/pip.conf",))
    monkeypatch.setattr(image_index, "_UV_FILES", ("~/.config/uv/uv.toml",))
    for folder in ("pip", "uv"):
        (tmp_path / ".config" / folder).mkdir(parents=True)
    return tmp_path


NETRC = """
machine github.com login me password token-of-github
machine packages.example.com login us/er password p@ss'word
default login anybody password of-everywhere
"""


def test_of_netrc_only_the_entry_of_the_index_s_host_goes_along(home: Path) -> None:
    """The other passwords are none of the build's business, and neither is the one for any host."""
    (home / ".netrc").write_text(NETRC)
    values = image_index.variables(
        {"PIP_INDEX_URL": "https://packages.example.com/simple", "UV_DEFAULT_INDEX": "https://pypi.org/simple"}
    )

    assert {
        "PIP_INDEX_URL": "https://us%2Fer:p%40ss%27word@packages.example.com/simple",
        "UV_DEFAULT_INDEX": "https://pypi.org/simple",
    } == values
    assert image_index.has_credentials(values)


def test_an_address_that_has_a_password_keeps_it(home: Path) -> None:
    """It counts before ~/.netrc, for pip and for uv."""
    (home / ".netrc").write_text(NETRC)
    given = {"UV_INDEX": "one=https://a:b@packages.example.com:8443/x two=https://packages.example.com:8443/y"}

    assert {
        "UV_INDEX": "one=https://a:b@packages.example.com:8443/x "
        "two=https://us%2Fer:p%40ss%27word@packages.example.com:8443/y"
    } == image_index.variables(given)


@pytest.mark.parametrize("content", ["machine", "machine a login", "\0"])
def test_a_netrc_that_nobody_can_read_is_as_none(home: Path, content: str) -> None:
    """The index says itself that it wants a password."""
    (home / ".netrc").write_text(content)

    assert {"PIP_INDEX_URL": "https://a/simple"} == image_index.variables({"PIP_INDEX_URL": "https://a/simple"})


def test_configuration_files_are_read_for_indexes_and_proxies_alone(home: Path) -> None:
    """Whatever else is in them stays here; a variable counts before them."""
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://a/simple\ntimeout = 9\nproxy = http://p:1\n"
        "[install]\nextra-index-url =\n  https://b/simple\n  https://c/simple\ntrusted_host = b\n"
    )
    (home / ".config/uv/uv.toml").write_text(
        'cache-dir = "/mine"\nnative-tls = true\nallow-insecure-host = ["b", "c"]\npublish-url = "https://u:secret@d"\n'
        '[[index]]\nname = "one"\nurl = "https://one/simple"\n[[index]]\nurl = "https://two/simple"\ndefault = true\n'
    )

    assert {
        "PIP_INDEX_URL": "https://variable/simple",
        "PIP_EXTRA_INDEX_URL": "https://b/simple https://c/simple",
        "PIP_TRUSTED_HOST": "b",
        "PIP_PROXY": "http://p:1",
        "UV_DEFAULT_INDEX": "https://two/simple",
        "UV_INDEX": "one=https://one/simple",
        "UV_INSECURE_HOST": "b c",
        "UV_NATIVE_TLS": "true",
    } == image_index.variables({"PIP_INDEX_URL": "https://variable/simple"})


def test_a_named_index_has_its_password_in_variables_of_its_own(home: Path) -> None:
    """As uv's documentation says; nothing else of the environment is taken."""
    given = {
        "UV_INDEX": "mine=https://a/simple",
        "UV_INDEX_MINE_USERNAME": "me",
        "UV_INDEX_MINE_PASSWORD": "secret",
        "UV_PUBLISH_TOKEN": "another",
        "AWS_SECRET_ACCESS_KEY": "another",
        "HTTPS_PROXY": "",
    }
    values = image_index.variables(given)

    assert {name: given[name] for name in ("UV_INDEX", "UV_INDEX_MINE_USERNAME", "UV_INDEX_MINE_PASSWORD")} == values
    assert image_index.has_credentials(values)
    assert not image_index.has_credentials({"UV_INDEX": values["UV_INDEX"], "HTTP_PROXY": "http://proxy:3128"})


def test_a_shell_reads_each_value_as_it_is(tmp_path: Path) -> None:
    """Quotes, blanks, dollars and line ends too: people have them in passwords."""
    values = {"HTTPS_PROXY": """http://me:it's"$HOME`id`\\@proxy:1""", "UV_INDEX": "a b\nc ${x} 'd'"}
    (tmp_path / "index").write_text(image_index.shell(values))
    command = f"set -a && . {tmp_path}/index && set +a && exec env -0"
    shell = ["sh", "-euc", command]
    path = {"PATH": os.environ["PATH"]}
    printed = subprocess.run(shell, capture_output=True, text=True, check=True, env=path).stdout

    assert values.items() <= dict(entry.partition("=")[::2] for entry in printed.split("\0")).items()


def test_certificates_are_named_as_the_build_has_them(home: Path) -> None:
    """Only where there are some."""
    file = home / "ca.pem"
    given = {"SSL_CERT_FILE": str(file)}

    assert {} == image_index.variables(given)
    file.touch()
    assert dict.fromkeys(image_index.CERTIFICATES, "/host/certificates.pem") == image_index.variables(given)
    assert file == image_index.certificates(given)
