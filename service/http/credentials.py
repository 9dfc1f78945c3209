"""Credentials as a request carries them, before anyone knows whether they are good. Pure."""

from __future__ import annotations

from multidict import CIMultiDictProxy


def hash_credential(headers: CIMultiDictProxy[str]) -> int:
    """What tells credentials apart in this process, good or not, however the header is written.

    Nothing of the credential can be made of it.
    """
    return hash(headers.get("Authorization", "").rstrip(" ").rpartition(" ")[2])
