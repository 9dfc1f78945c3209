"""Chooses where the sessions of tokens are kept: they should live as long as those of keys do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexing.clocks import Clock
from service.cache.backend import CacheBackend
from service.cache.confirmed import CacheUnavailableError, ConfirmedValues
from service.cache.local_values import FolderValues, MemoryValues
from service.config.settings import Settings

if TYPE_CHECKING:
    from service.ui.token_sessions import TokenSessions

# In the folder of the embedded store.
FOLDER: Final = "sessions"

_log = logging.getLogger(__name__)


def needs_folder(settings: Settings) -> bool:
    """Whether workers need a folder of their own to share sessions: they share nothing else."""
    return (
        settings.ui
        and settings.host_api_url is not None
        and settings.redis_url is None
        and bool(settings.elasticsearch_url)
    )


async def open_token_sessions(
    settings: Settings, backend: CacheBackend, folder: Path | None, clock: Clock
) -> TokenSessions | None:
    """Return the sessions of tokens; None without a code host.

    They are in Redis, else beside the embedded store, else in the folder that workers share, else
    in the memory of this process.
    """
    if settings.host_api_url is None:
        return None
    # Imported here, as it loads cryptography.
    from service.ui.token_sessions import TokenSessions

    values = await _open_values(settings, backend, folder)
    return TokenSessions(values, settings.host_api_url, clock)


async def _open_values(
    settings: Settings, backend: CacheBackend, folder: Path | None
) -> ConfirmedValues:
    if backend.confirmed_values is not None:
        return backend.confirmed_values
    if not settings.elasticsearch_url:
        folder = settings.data_dir / FOLDER
    if folder is None:
        return MemoryValues()
    values = FolderValues(folder)
    try:
        await values.sweep()
    except CacheUnavailableError as error:
        # The API does not need it.
        _log.warning("sessions unavailable", extra={"reason": str(error)})
    return values
