"""Credentials as a request carries them, before anyone knows whether they are good. Pure."""

from __future__ import annotations

from multidict import CIMultiDictProxy


def hash_credential(headers: CIMultiDictProxy[str]) -> int:
    """A number that tells credentials apart in this process, valid or not.

    Nothing of the credential can be made of it.
    """
    return hash(headers.get("Authorization", "").rstrip(" ").rpartition(" ")[2])
