"""Finds the proxy for a service in the environment, as other CI tools do."""

from __future__ import annotations

import os
import urllib.request
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from yarl import URL

_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy that `setting` names; `url` is None if its value is no URL of an HTTP proxy."""

    setting: str
    url: str | None


def find_proxy(url: str) -> Proxy | None:
    """Return the proxy for the service at this URL.

    Raises:
        ValueError: the URL is malformed.
    """
    service = URL(url)
    proxies = urllib.request.getproxies()
    if not service.host or _is_exempt(service, proxies.get("no", "")):
        return None
    if value := proxies.get(service.scheme):
        return Proxy(_name_setting(service.scheme), _read(value))
    # This one is for other tools too, and is often a SOCKS proxy.
    if (value := proxies.get("all")) and (found := _read(value)):
        return Proxy(_name_setting("all"), found)
    return None


def _is_exempt(service: URL, exceptions: str) -> bool:
    # With a port, entries of `no_proxy` match both with and without it.
    if urllib.request.proxy_bypass(f"{service.host}:{service.port}"):
        return True
    # This compares texts. Others also read networks, such as 10.0.0.0/8, and IPv6 in brackets.
    try:
        address = ip_address(service.host or "")
    except ValueError:
        return False
    return any(_covers(entry.strip(" []"), address) for entry in exceptions.split(","))


def _covers(entry: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _read(value: str) -> str | None:
    text = value if "://" in value else f"http://{value}"
    try:
        url = URL(text)
    except ValueError:
        return None
    return text if url.scheme in _SCHEMES and url.host else None


def _name_setting(kind: str) -> str:
    name = f"{kind}_proxy"
    # The variable in lower case wins. Without any, the operating system has the setting.
    found = {each for each in os.environ if each.lower() == name and os.environ[each]}
    return name if name in found else min(found, default="the system settings")
