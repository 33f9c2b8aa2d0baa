"""Collects how this machine reaches packages, for the build stages that install them: one file of shell variables.

It contains the variables of pip and uv, the indexes and proxies of their configuration files, and the entries of
~/.netrc for those indexes' hosts. It may contain passwords: the build gets it as a secret (`infra.image.command`).
"""

import configparser
import netrc
import os
import re
import shlex
import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
"""Variables that name a file with certificates. The certificates are not secret."""
CERTIFICATES_IN_BUILD = "/host/certificates.pem"

_INDEXES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"),
)
_OTHERS = (
    *("PIP_TRUSTED_HOST", "PIP_PROXY", "UV_INSECURE_HOST", "UV_NATIVE_TLS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_CREDENTIALS = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
_URL = re.compile(r"(https?://)([^/\s@]+)(?=[/\s]|$)")
"""Matches an address without credentials; its groups are the scheme and the host."""
_PIP_FILES = (
    "/etc/pip.conf",
    "~/.pip/pip.conf",
    "~/.config/pip/pip.conf",
    "~/Library/Application Support/pip/pip.conf",
)
_PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy")
_UV_FILES = ("/etc/uv/uv.toml", "~/.config/uv/uv.toml")
_UV_KEYS = {
    "index-url": "UV_INDEX_URL",
    "extra-index-url": "UV_EXTRA_INDEX_URL",
    "allow-insecure-host": "UV_INSECURE_HOST",
    "native-tls": "UV_NATIVE_TLS",
}


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with which a build reaches packages in the same way as this machine. The environment
    variables override the configuration files."""
    known = {name: value for name, value in environment.items() if value and _is_wanted(name)}
    for name, value in (*_of_pip(environment), *_of_uv(environment)):
        known.setdefault(name, value)
    passwords = _passwords(environment)
    for name in _INDEXES:
        if name in known:
            known[name] = _URL.sub(lambda match: _with_password(match, passwords), known[name])
    if certificates(environment):
        known |= dict.fromkeys(CERTIFICATES, CERTIFICATES_IN_BUILD)
    return known


def shell(values: Mapping[str, str]) -> str:
    """Return the values as a file that a shell can source, with every value quoted."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(values.items()))


def has_credentials(values: Mapping[str, str]) -> bool:
    """Return whether any of the values is secret."""
    return any(_CREDENTIALS.fullmatch(name) or re.search(r"://[^/\s]*@", value) for name, value in values.items())


def certificates(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file that the environment names with this machine's own certificates; None if there is none."""
    named = next((Path(environment[name]) for name in CERTIFICATES if environment.get(name)), None)
    return named if named and named.is_file() else None


def _is_wanted(name: str) -> bool:
    return name in _INDEXES or name in _OTHERS or bool(_CREDENTIALS.fullmatch(name))


def _files(environment: Mapping[str, str], name: str, usual: tuple[str, ...]) -> list[Path]:
    """Return the configuration files, highest precedence last; if a variable names a file, only that file."""
    named = environment.get(name)
    paths = [Path(named)] if named else [Path(path).expanduser() for path in usual]
    return [path for path in paths if path.is_file()]


def _of_pip(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read(_files(environment, "PIP_CONFIG_FILE", _PIP_FILES), encoding="utf-8")
    for section in ("install", "global"):
        for key, value in parser[section].items() if parser.has_section(section) else ():
            if key.replace("_", "-") in _PIP_KEYS:
                yield f"PIP_{key.replace('-', '_').upper()}", " ".join(value.split())


def _of_uv(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path in reversed(_files(environment, "UV_CONFIG_FILE", _UV_FILES)):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        settings: dict[str, Any] = {**content.get("pip", {}), **content}
        indexes = settings.get("index", [])
        default = [index["url"] for index in indexes if index.get("default")]
        others = [f"{index['name']}={index['url']}" if "name" in index else index["url"] for index in indexes]
        if default:
            yield "UV_DEFAULT_INDEX", default[0]
        if others := [other for other in others if not default or not other.endswith(default[0])]:
            yield "UV_INDEX", " ".join(others)
        for key, name in _UV_KEYS.items():
            if key in settings:
                value = settings[key]
                yield (
                    name,
                    " ".join(value) if isinstance(value, list) else str(value).lower() if value is True else str(value),
                )


def _passwords(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the user and the password for each host in ~/.netrc; empty if the file cannot be read."""
    path = Path(environment.get("NETRC") or "~/.netrc").expanduser()
    try:
        hosts = netrc.netrc(str(path)).hosts
    except (OSError, netrc.NetrcParseError):
        return {}
    return {
        host: (login, password or "") for host, (login, _, password) in hosts.items() if login and host != "default"
    }


def _with_password(match: "re.Match[str]", passwords: Mapping[str, tuple[str, str]]) -> str:
    host = urllib.parse.urlsplit(match[0]).hostname or ""
    if host not in passwords:
        return match[0]
    login, password = (urllib.parse.quote(part, safe="") for part in passwords[host])
    return f"{match[1]}{login}:{password}@{match[2]}"
