"""Secrets in the forms in which they have been seen in objects and logs. All of them are made up.

Each is cut in two in this file, so that no scanner of repositories takes it for a real one.
"""

from __future__ import annotations

import base64
import html
import json
import textwrap
import urllib.parse
from dataclasses import dataclass
from typing import Any

import yaml

BODY = "MIIEowIBAAKCAQEA3f7mXc" + "Yq2Zr8vTnKp5wLhB1sQjUoXeFgHdRtCaVbNyMi"
PEM = "\n".join(["-----BEGIN RSA PRIVATE " + "KEY-----", BODY, BODY[::-1], "-----END RSA PRIVATE " + "KEY-----"])
JWT = "eyJhbGciOiJSUzI1NiJ9" + ".eyJzdWIiOiJzeXN0ZW06bm9kZSJ9.c2lnbmF0dXJlLW9mLW1pbmU"
QUOTED = 'hunter"22\\wörd'
LONG = " ".join(["correct horse battery staple", "ninety-nine red balloons went by", "and nobody asked them where to"])
LINES = "first-line-of-mine\nsecond-line-of-mine\n"
PLAIN = "swordfish-of-mine"
LOGIN = {"auths": {"registry.example.com": {"username": "me", "password": "reg-pass-word", "auth": "bWU6cmVnLXBhc3M="}}}


@dataclass(frozen=True)
class Case:
    """A text as it is found, and what of it must be nowhere in an archive."""

    name: str
    text: str
    gone: tuple[str, ...]


KNOWN = {
    "plain": {"key": PLAIN, "quoted": QUOTED, "long": LONG, "lines": LINES},
    "login": {".dockerconfigjson": json.dumps(LOGIN)},
    "settings": {".env": "HOST=db.example.com\nDB_PASSWORD='dbpw-of-mine'\n", "file.json": '{"a": ["leaf-of-mine"]}'},
}
"""Secrets of the namespace: values that have no form by which they could be known."""


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _known() -> list[Case]:
    folded = yaml.safe_dump({"value": LONG})
    assert LONG not in folded
    quoted_fold = yaml.safe_dump({"value": LONG + "\t"}, default_style='"')
    wrapped = "\n".join(textwrap.wrap(_b64(f"user:{PLAIN} " * 6), 64))
    return [
        Case("plain", f"login with {PLAIN} failed", (PLAIN,)),
        Case("escaped by JSON", json.dumps({"value": QUOTED}), ("hunter",)),
        Case("escaped by JSON twice", json.dumps(json.dumps({"value": QUOTED})), ("hunter",)),
        Case("in Python's repr", repr({"value": QUOTED}), ("hunter",)),
        Case("in an address", f"/login?p={urllib.parse.quote(QUOTED)}", (urllib.parse.quote(QUOTED), "hunter")),
        Case("in HTML", html.escape(QUOTED), ("hunter",)),
        Case("folded by YAML", folded, ("battery", "balloons", "nobody asked")),
        Case("folded by YAML in quotes", quoted_fold, ("battery", "balloons", "nobody asked")),
        Case("one line of several", "read second-line-of-mine from it", ("second-line-of-mine",)),
        Case("several lines in JSON", json.dumps({"value": LINES}), ("first-line-of-mine", "second-line-of-mine")),
        Case("base64", f"value {_b64(PLAIN)}", (_b64(PLAIN).rstrip("="),)),
        Case("base64 within more", _b64(f"prefix-{PLAIN}-and-more"), (_b64(f"prefix-{PLAIN}-and-more")[:20],)),
        Case("base64 of base64", _b64(_b64(PLAIN)), (_b64(_b64(PLAIN))[:16],)),
        Case("base64 over several lines", f"data: |\n{wrapped}", (wrapped.splitlines()[1],)),
        Case("a registry's password", "pull with reg-pass-word", ("reg-pass-word",)),
        Case("a value of an .env file", "connected with dbpw-of-mine", ("dbpw-of-mine",)),
        Case("a leaf of a JSON file", "opened leaf-of-mine", ("leaf-of-mine",)),
    ]


def _by_form() -> list[Case]:
    aws_id, aws_key = "AKIA" + "Z7QK3NVH2M5PLXWD", "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYzzzzzzzzKEY"
    github, pat = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "github_pat_" + "11ABCDEFG0aBcDeFgHiJkL_mNoPq"
    slack, hugging = "xoxb-" + "123456789012-abcdefGHIJKL", "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"
    client_key, login = _b64(PEM), _b64("someone:some-password")
    return [
        Case("AWS", f"AWS_ACCESS_KEY_ID={aws_id}\naws_secret_access_key = {aws_key}", (aws_id, aws_key)),
        Case("AWS in JSON", json.dumps({"SecretAccessKey": aws_key}), (aws_key,)),
        Case("GitHub", f"cloning with {github} and {pat}", (github, pat)),
        Case("Slack and Hugging Face", f"{slack} {hugging}", (slack, hugging)),
        Case("a JSON web token", f"token is {JWT}", (JWT, JWT.split(".")[2])),
        Case("a private key", PEM, (BODY, BODY[::-1])),
        Case("a private key in JSON", json.dumps({"key": PEM}), (BODY, BODY[::-1])),
        Case("a private key without its end", PEM[:-40], (BODY, BODY[::-1][:30])),
        Case("a private key without its beginning", PEM[45:], (BODY[::-1],)),
        Case("client-key-data", f"    client-key-data: {client_key}\n", (client_key[:40],)),
        Case("base64 of a private key", client_key, (client_key[40:80],)),
        Case("an address with a password", "http://me:pa/ss@w0rd@proxy.example.com:3128", ("pa/ss", "w0rd")),
        Case("an address with a token", "https://oauth-token-0@host/simple", ("oauth-token-0",)),
        Case("a bearer header", "> Authorization: Bearer 0123-abc.def~x", ("0123-abc.def~x",)),
        Case("a bearer header in JSON", '{"Authorization": "Bearer 0123-abc"}', ("0123-abc",)),
        Case("bearer alone", "using bearer abcdef0123456789", ("abcdef0123456789",)),
        Case("docker's login", json.dumps({"auths": {"r": {"auth": login}}}), (login.rstrip("="), "some-password")),
        Case("a name and a value", "DB_PASSWORD=open-sesame-1 next", ("open-sesame-1",)),
        Case("a name and a value in escaped JSON", r'"{\"apiToken\": \"open-sesame-2\"}"', ("open-sesame-2",)),
        Case("a name and words", "  dbPassword: open sesame three", ("open sesame", "three")),
        Case("a name and a block", "secret: |\n  open-sesame-4\n  more-4\nnext: x\n", ("open-sesame-4", "more-4")),
        Case("a flag", "started with --db-password open-sesame-5", ("open-sesame-5",)),
        Case("kubeadm's token", "kubeadm join --token abcdef.0123456789abcdef", ("abcdef.0123456789abcdef",)),
        Case("a cookie", "Set-Cookie: session=s3ss10n-of-mine; Path=/", ("s3ss10n-of-mine",)),
    ]


CASES = (*_known(), *_by_form())

OBJECT: dict[str, Any] = {
    "env": [{"name": "DB_PASSWORD", "value": "env-value-of-mine"}, {"name": "EPOCHS", "value": "8"}],
    "args": ["--token", "argument-of-mine", "--epochs", "8"],
    "annotation": json.dumps({"spec": {"password": "annotated one of mine"}}),
    "password": 12345678,
}
"""Where a name and its value stand apart."""
IN_OBJECT = ("env-value-of-mine", "argument-of-mine", "annotated one of mine", "12345678")
