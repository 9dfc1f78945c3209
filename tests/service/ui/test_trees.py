"""What one line of the log shows of an event's metadata."""

from __future__ import annotations

from typing import Any

import pytest

from service.ui.trees import preview


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        (
            {"branch": "main", "draft": False, "gone": None},
            [("branch", "main"), ("draft", "false")],
        ),
        ({"added": ["<b>", "a"], "removed": []}, [("added", "<b>, a")]),
        ({"users": list("abcde")}, [("users", "a, b, c and 2 more")]),
        ({"by": {"id": 1, "login": "mona"}}, [("by", "2 fields")]),
        ({"rules": [{"name": "a"}], "empty": {}}, [("rules", "1 item")]),
        ({"removed": [], "reason": None}, []),
        ({f"k{n}": n for n in range(9)}, [(f"k{n}", str(n)) for n in range(6)]),
    ],
)
def test_a_preview_has_the_first_members_that_say_something(
    metadata: dict[str, Any], shown: list[tuple[str, str]]
) -> None:
    assert preview(metadata) == shown
