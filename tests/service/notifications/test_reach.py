"""The addresses that notifications may be sent to."""

from __future__ import annotations

import pytest

from service.config.reach import Reach

PUBLIC = ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e")
PRIVATE = (
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "fec0::1",
    "feff::1",
    "3fff::1",
    "192.0.0.9",
    "192.0.0.192",
    "192.88.99.1",
    "::ffff:192.0.0.192",
    "64:ff9b::c000:c0",
)
NEVER = (
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",  # noqa: S104 - nothing listens
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert all(reach.allows(address) for reach in Reach)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_the_setting(address: str) -> None:
    assert [reach for reach in Reach if reach.allows(address)] == [Reach.ANY]


@pytest.mark.parametrize("address", NEVER)
def test_metadata_addresses_of_clouds_are_never_allowed(address: str) -> None:
    assert not any(reach.allows(address) for reach in Reach)
