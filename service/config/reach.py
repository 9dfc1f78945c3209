"""The setting for where notifications may be sent, and the addresses that it allows. Pure."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from environs import Env
from marshmallow.validate import OneOf

# RFC 6052, section 2.1: the last four bytes are an IPv4 address.
_NAT64: Final = IPv6Network("64:ff9b::/96")
# Some or all supported versions of Python take these for global addresses.
_NOT_PUBLIC: Final = (
    # RFC 6890, section 2.1: for protocols of the network itself.
    IPv4Network("192.0.0.0/24"),
    # RFC 7526: relays of 6to4, which is deprecated; whoever announces the network receives it.
    IPv4Network("192.88.99.0/24"),
    # RFC 9637: documentation.
    IPv6Network("3fff::/20"),
    # RFC 3879: site-local, the former private networks.
    IPv6Network("fec0::/10"),
)


class Reach(StrEnum):
    """Public addresses only, or those of private networks and this machine too."""

    PUBLIC = "public"
    ANY = "any"

    def allows(self, address: str) -> bool:
        """Whether a connection may be made to that numeric address.

        Link-local addresses are never allowed: cloud providers serve a machine's credentials there.
        """
        found = _unwrap(ip_address(address.partition("%")[0]))
        if found.is_loopback:
            return self is Reach.ANY
        if found.is_link_local or found.is_multicast or found.is_unspecified or found.is_reserved:
            return False
        is_public = found.is_global and not any(found in network for network in _NOT_PUBLIC)
        return self is Reach.ANY or is_public


def _unwrap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that a translated IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def read_reach(env: Env, name: str, default: Reach | None) -> Reach | None:
    """Read the setting; an unknown value is reported with all other wrong settings."""
    allowed = [choice.value for choice in Reach]
    text = env.str(name, None, validate=OneOf(allowed))
    return Reach(text) if text in allowed else default
