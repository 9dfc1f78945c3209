"""Tells whether a host is this machine. Pure: no name is looked up."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a host in lower case is a loopback address, or the name that stands for one.

    An IPv6 address may be in brackets.
    """
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
