"""Fifty kinds of requests without a valid credential."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

Headers = tuple[bytes, ...]


@dataclass(frozen=True)
class Texts:
    """Real credentials: `other` belongs to another store, `foreign` ones to other services."""

    good: str = field(repr=False)
    revoked: str = field(repr=False)
    expired: str = field(repr=False)
    other: str = field(repr=False)
    foreign: Sequence[str] = (
        "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
        "ghs_0123456789abcdefghijklmnopqrstuvwxyz",
        "github_pat_0123456789_abcdefghijklmnopqrstuvwxyz",
        "glpat-0123456789abcdefghij",
        "AKIA0123456789ABCDEF",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl",
        "0123456789abcdef0123456789abcdef01234567",
        "3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab",
        "null",
    )


def variants(texts: Texts) -> list[Headers]:
    """Return the headers of each kind."""
    good, revoked, expired, other = (
        text.encode() for text in (texts.good, texts.revoked, texts.expired, texts.other)
    )
    basic = base64.b64encode(b"key:" + good)
    bearers = [
        b"",
        b" ",
        good[:-1],
        good[1:],
        good + b"x",
        good + good,
        good[::-1],
        good.swapcase(),
        good.upper(),
        good.lower(),
        good.replace(b"mw_", b""),
        good.replace(b"mw_", b"mw-"),
        b'"' + good + b'"',
        b"<" + good + b">",
        good + b",",
        good + b";",
        good + b" " + good,
        good[:20] + b"\t" + good[20:],
        good + b"\xc2\xa0",
        b"\xef\xbb\xbf" + good,
        base64.b64encode(good),
        good.hex().encode(),
        good.replace(b"_", b"%5F"),
        b"mw_" + b"0" * 49,
        b"mw_" + b"a" * 4_000,
        b"' OR 1=1 --",
        b"*",
        revoked,
        expired,
        other,
        *(text.encode() for text in texts.foreign),
    ]
    whole = [
        good,
        b"Basic " + basic,
        b"Basic " + good,
        b"Token " + good,
        b"token " + good,
        b"Bearer:" + good,
        b"Bearer=" + good,
        b"Bearer" + good,
        b"Bearer\t" + good,
        b'Digest username="' + good + b'"',
        b"Bearer Bearer " + good,
    ]
    line = b"Authorization: Bearer " + good
    return [
        (),
        *((b"Authorization: Bearer " + text,) for text in bearers),
        *((b"Authorization: " + text,) for text in whole),
        (line, line),
        (line, b"Authorization: Bearer " + other),
        (b"X-Authorization: Bearer " + good,),
        (b"Proxy-Authorization: Bearer " + good,),
        (b"Cookie: Authorization=" + good + b"; token=" + good,),
        (b"X-Api-Key: " + good, b"X-Auth-Token: " + good, b"Private-Token: " + good),
        (b"User-Agent: " + good, b"Referer: https://service.example/?token=" + good),
    ]
