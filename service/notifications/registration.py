"""Parses the URL and the secret of a new webhook. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from indexing.errors import InvalidValueError
from indexing.models.notifications import MAX_SECRET_BYTES, MAX_URL_LENGTH, MIN_SECRET_BYTES

# RFC 3986, section 2: URLs percent-encode every other character.
_CHARACTERS: Final = re.compile("[!-~]+")
_PREFIX: Final = "whsec_"
_LONGEST_LABEL: Final = 63
# No domain ends in a number, so such a host is another spelling of an address, as `127.1`. What it
# means depends on the program that reads it.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)


def parse_url(text: str) -> str:
    """Check the URL of a receiver. Errors do not repeat it, because it may be a secret.

    Raises:
        InvalidValueError: it is not an http or https URL, is too long, contains credentials, a
            fragment or characters that no URL has, or abbreviates an IP address.
    """
    text = text.strip()
    try:
        parts = urlsplit(text)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if text and not _CHARACTERS.fullmatch(text):
        raise InvalidValueError("the URL must be one line of ASCII, without spaces")
    if not good or len(text) > MAX_URL_LENGTH:
        raise InvalidValueError(
            f"the URL must be http or https, with a host, in at most {MAX_URL_LENGTH:,} characters"
        )
    host = parts.hostname or ""
    if not _is_address(host) and not _is_name(host):
        raise InvalidValueError("the host of the URL must be a name, or an IP address in full")
    if "@" in parts.netloc or parts.fragment:
        raise InvalidValueError("the URL must have no credentials and no fragment")
    return text


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return (
        all(0 < len(label) <= _LONGEST_LABEL for label in labels)
        and "%" not in host
        and not _NUMBER.fullmatch(labels[-1])
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def parse_secret(text: str) -> bytes:
    """Decode a secret from base64, with or without the prefix `whsec_`.

    Raises:
        InvalidValueError: it is too short, too long or not base64.
    """
    try:
        secret = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValueError(
            "the secret must be base64, such as `openssl rand -base64 32` prints"
        ) from None
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise InvalidValueError(
            f"the secret must have {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes"
        )
    return secret


def host_of(url: str) -> str:
    """Return the part of a URL that may be shown: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
