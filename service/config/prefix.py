"""What the names of all settings begin with. Imports nothing, because every command imports it."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "MERGEWATCH_"
