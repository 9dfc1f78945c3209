"""Checks URLs in the settings. Pure: no URL is contacted, and no file is read.

A check raises `ValidationError`, whose text shows nothing of the URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs, urlsplit

from marshmallow import ValidationError

from indexing.loopback import is_loopback

_PUBLIC_URL: Final = re.compile(r"https?://[A-Za-z0-9._\-\[\]:]+(?:/[A-Za-z0-9._~/\-]*)?")

# RFC 6454, section 7, as browsers send it: in lower case, without a path.
_ORIGIN: Final = re.compile(r"https?://[a-z0-9._\-\[\]:]+")

# A `/`, `?` or `#` ends the part of a URL in which the password is.
_ENCODE: Final = "; percent-encode the special characters of a password"

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_REDIS_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})
_REDIS_DATABASE: Final = re.compile("/?[0-9]{0,4}")
_DIGITS: Final = re.compile("[0-9]{1,4}")
# The options that an operator may set; this service chooses the others.
_REDIS_TLS_OPTIONS: Final = frozenset(
    {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
_REDIS_OPTIONS: Final = _REDIS_TLS_OPTIONS | {"db"}
_CERTIFICATE_CHECKS: Final = frozenset({"none", "optional", "required"})
# The client takes any other word for "true".
_BOOLEANS: Final = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"})


def check_public_url(text: str) -> None:
    message = "must be an http or https URL with a host, without credentials, query or fragment"
    if not _PUBLIC_URL.fullmatch(text):
        raise ValidationError(message)
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValidationError(message) from error
    if not named:
        raise ValidationError(message)


def check_service_url(text: str) -> None:
    check_public_url(text)
    if text.rstrip("/").endswith("/v1"):
        raise ValidationError("must be the address of the service, without /v1 at its end")


def check_node_urls(text: str) -> None:
    urls = [url.strip() for url in text.split(",")]
    for url in urls:
        message = f"must be http or https URLs with a host each, separated by commas{_ENCODE}"
        try:
            parts = urlsplit(url)
            good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
            # It refuses empty and long labels.
            (parts.hostname or "").encode("idna")
        except ValueError as error:
            raise ValidationError(message) from error
        if not good or parts.query or parts.fragment:
            raise ValidationError(message)
    if len({_find_node(url) for url in urls}) < len(urls):
        raise ValidationError("must not have the same URL twice")


def _find_node(url: str) -> tuple[str, str | None, int, str]:
    """Return what two URLs of the same node have in common."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def check_redis_url(text: str) -> None:
    message = (
        "must be a URL such as redis://:password@host:6379/0, rediss://host or unix:///path"
        + _ENCODE
    )
    try:
        parts = urlsplit(text)
        port = parts.port
        options = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
        databases = options.get("db", [])
    except ValueError as error:
        raise ValidationError(message) from error
    if parts.scheme == "unix":
        fits = bool(parts.path)
    else:
        fits = bool(parts.hostname) and bool(_REDIS_DATABASE.fullmatch(parts.path))
    if not fits or parts.scheme not in _REDIS_SCHEMES or not _REDIS_OPTIONS.issuperset(options):
        raise ValidationError(message)
    if port == 0 or not all(_DIGITS.fullmatch(each) for each in databases):
        raise ValidationError(message)
    tls = read_redis_tls_options(text)
    if tls and parts.scheme != "rediss":
        raise ValidationError("must begin with rediss:// to have options for TLS")
    if tls:
        _check_tls(tls)


def read_redis_tls_options(url: str) -> dict[str, str]:
    """Return the options for TLS: of several values of one, the first, as the client does."""
    options = parse_qs(urlsplit(url).query)
    return {name: values[0] for name, values in options.items() if name in _REDIS_TLS_OPTIONS}


def _check_tls(options: Mapping[str, str]) -> None:
    if options.get("ssl_cert_reqs", "none") not in _CERTIFICATE_CHECKS:
        raise ValidationError("must have ssl_cert_reqs of none, optional or required")
    if options.get("ssl_check_hostname", "true").lower() not in _BOOLEANS:
        raise ValidationError("must have ssl_check_hostname of true or false")
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        raise ValidationError("must have ssl_certfile as well as ssl_keyfile")


def check_host_api_url(text: str) -> None:
    check_public_url(text)
    # The tokens of other people are sent there.
    if urlsplit(text).scheme != "https" and not is_loopback(urlsplit(text).hostname or ""):
        raise ValidationError("must be an https URL, unless its host is this machine")


def check_origins(origins: list[str]) -> None:
    if not all(text == "*" or _ORIGIN.fullmatch(text) for text in origins):
        raise ValidationError(
            "must be origins such as https://ci.example, separated by commas, or *"
        )
