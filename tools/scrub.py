"""Takes secrets out of text that is given away: those of the cluster by their values, others by their form."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

REPLACEMENT = "[removed]"
SHORTEST = 6
"""Characters: a shorter value stands in ordinary text too, and is no secret worth the name."""

_PUBLIC = ("namespace", "ca.crt")
"""Keys of a service account's Secret that hold no secret."""
_LOGIN = re.compile(r'"(?:password|auth|identitytoken)"\s*:\s*"([^"]+)"')
_FORMS = (
    r"(?:(?<=token: )|(?<=--token ))[a-z0-9]{6}\.[a-z0-9]{16}\b",  # kubeadm's bootstrap token
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}",  # a JSON web token, as of a service account
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    r"(?<=--discovery-token-ca-cert-hash sha256:)[0-9a-f]{64}",
    r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",  # a user and a password in an address
    r"(?i:(?<=authorization: )(?:bearer|basic) \S+)",
)
_BY_FORM = re.compile("|".join(f"(?:{form})" for form in _FORMS), re.DOTALL)


class Scrubber:
    """Removes the values of Secrets, plain and in base64, and whatever has the form of a secret."""

    def __init__(self, secrets: Iterable[Mapping[str, Any]]) -> None:
        values = {text for secret in secrets for text in _values(secret)}
        longest_first = sorted((text for text in values if len(text) >= SHORTEST), key=len, reverse=True)
        self._by_value = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def clean(self, text: str) -> str:
        """The text without them."""
        if self._by_value:
            text = self._by_value.sub(REPLACEMENT, text)
        return _BY_FORM.sub(REPLACEMENT, text)


def _values(secret: Mapping[str, Any]) -> Iterable[str]:
    """Each value of a Secret as the API server writes it, as a program has it, and what a registry's login holds."""
    for key, encoded in (secret.get("data") or {}).items():
        if key not in _PUBLIC:
            decoded = base64.b64decode(encoded).decode(errors="replace").strip()
            yield from (encoded, decoded, *_LOGIN.findall(decoded))


def without_data(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """An object fit to be shown: of a Secret only the names of its values, and of none what managed which field."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    if kind != "secrets":
        return {**item, "metadata": metadata}
    annotations = metadata.pop("annotations", {})  # kubectl keeps a copy of the whole object in one
    named = {"annotations": sorted(annotations)} if annotations else {}
    return {"metadata": metadata | named, "type": item.get("type"), "data": sorted(item.get("data") or {})}
