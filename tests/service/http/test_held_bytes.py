"""Bytes that are kept for clients count once for each group that holds them."""

from __future__ import annotations

from service.http.held_bytes import HeldBytes


def test_a_text_counts_once_for_each_group_until_its_last_holder_releases_it() -> None:
    held, text = HeldBytes(), b"1" * 1_000
    assert held.find_growth(text, "acme") == 1_000
    for _ in range(2):
        held.hold(text, "acme")
    assert held.find_growth(text, "acme") == 0
    assert held.find_growth(text, "umbrella") == 1_000
    held.hold(text, "umbrella")
    assert (held.of("acme"), held.of("umbrella"), held.total) == (1_000, 1_000, 2_000)
    held.release(text, "acme")
    assert (held.of("acme"), held.total) == (1_000, 2_000)
    held.release(text, "acme")
    assert (held.of("acme"), held.total, [*held.groups]) == (0, 1_000, ["umbrella"])
    held.release(text, "umbrella")
    assert (held.total, [*held.groups]) == (0, [])


def test_equal_texts_count_one_by_one() -> None:
    held, texts = HeldBytes(), [b"1" * size for size in (1_000, 1_000)]
    for text in texts:
        held.hold(text, "acme")
    assert held.of("acme") == 2_000


def test_an_empty_text_takes_no_room() -> None:
    held = HeldBytes()
    held.hold(b"", "acme")
    assert (held.total, [*held.groups]) == (0, [])
    held.release(b"", "acme")
    assert (held.total, [*held.groups]) == (0, [])
