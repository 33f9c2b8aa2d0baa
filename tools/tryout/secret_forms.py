"""Recognises secrets by their form alone: services' keys, headers, addresses, what has a secret's name.

Forms of services are as those services document them, and as detect-secrets and gitleaks look for them.
"""

from __future__ import annotations

import re

_NAMES = (
    r"passw(?:or)?d|passwd|passphrase|pwd|_pass|secret|token|credentials?|identity-?token|connection[_-]?string|"
    r"(?:api|access|secret|private|client|account|shared|signing|encryption|storage|license|master|ssh)[_-]?key|"
    r"client-key-data|access[_-]?key[_-]?id|aws_?secret_?access_?key|_auth|cookie|salt"
)
_IS_NAME = re.compile(rf"(?i).*(?:{_NAMES})|auth")
_SERVICES = (
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}\b",  # AWS
    r"\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}",  # GitHub
    r"\bgl(?:pat|rt|dt|oas|ptt|cbt|ft|soat|imt|agent)-[\w-]{20,}",  # GitLab
    r"\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}|(?<=hooks\.slack\.com/)(?:services|workflows)/[\w/+-]+",  # Slack
    r"\b[rs]k_(?:live|test)_\w{10,}",  # Stripe
    r"\bAIza[\w-]{35}|\bya29\.[\w-]{10,}|\bGOCSPX-[\w-]{20,}",  # Google
    r"\bsk-[\w-]{20,}",  # OpenAI, Anthropic
    r"\bhf_\w{20,}|\bnpm_\w{30,}|\bpypi-[\w-]{20,}|\bdckr_[a-z]+_[\w-]{20,}",  # Hugging Face and registries
    r"\bpul-[0-9a-f]{40}|\bhv[sbr]\.[\w-]{20,}|\bdo[opr]_v1_[0-9a-f]{40,}|\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # a JSON web token, as of a service account
)
_ADDRESSES = (
    r"(?<=://)[^\s/@\"'<>]{1,500}(?=@)",  # a user in an address, with or without a password
    r"(?<=://)[^\s/:@\"'<>]{0,200}:[^\s\"'<>]{0,500}(?=@(?!sha256:))",  # a password that holds / or @
)
_BY_FORM = re.compile("|".join(f"(?:{form})" for form in (*_SERVICES, *_ADDRESSES)))
_NAMED = re.compile(
    rf"(?i)(?:{_NAMES})[\"']?\s*[:=]\s*[\"']?[^\s\"']{{5,}}|authorization|\b(?:bearer|basic)\s+\S{{6,}}"
)


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret: RAY_AUTH_TOKEN, dbPassword, client-key-data; not secretName."""
    return bool(_IS_NAME.fullmatch(name))


def has_secret_form(text: str) -> bool:
    """Return whether a text holds what looks like a secret: a service's key, a user in an address, `password: …`."""
    return bool(_BY_FORM.search(text) or _NAMED.search(text) or "PRIVATE KEY" in text)
