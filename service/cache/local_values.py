"""Confirmed values of a service without Redis: in the memory of a process, or in a folder."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from indexing.lru import Lru
from service.cache.confirmed import CacheUnavailableError, ConfirmedValues

# About 20,000 sessions.
MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 10_000

# How long a file may take to be written. One that is older was left by a process that died.
_WRITTEN_WITHIN_SECONDS: Final = 60.0


class MemoryValues(ConfirmedValues):
    """Values of this process alone, which end with it."""

    def __init__(self) -> None:
        self._held: Lru[bytes] = Lru(MAX_MEMORY_BYTES)

    async def keep(self, name: str, value: bytes, seconds: float) -> None:
        self._held.keep(name, value, len(value), time.monotonic() + seconds)

    async def find(self, name: str) -> bytes | None:
        return self._held.find(name)

    async def drop(self, name: str) -> None:
        self._held.drop(name)


class FolderValues(ConfirmedValues):
    """Values in files, which the processes of one machine share. Only this user can read them.

    The modification time of a file is the time at which its value expires.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def sweep(self) -> None:
        """Remove expired values, and the first to expire of too many.

        Raises:
            CacheUnavailableError: the folder cannot be read.
        """
        await asyncio.to_thread(_sweep, self._folder)

    async def keep(self, name: str, value: bytes, seconds: float) -> None:
        await asyncio.to_thread(_write, self._folder, name, value, time.time() + seconds)

    async def find(self, name: str) -> bytes | None:
        return await asyncio.to_thread(_read, self._folder / name)

    async def drop(self, name: str) -> None:
        await asyncio.to_thread(_remove, self._folder / name)


def _write(folder: Path, name: str, value: bytes, expires_at: float) -> None:
    written = folder / f".{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _sweep(folder)
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(value)
        os.utime(written, (expires_at, expires_at))
        written.replace(folder / name)
    except OSError as error:
        with suppress(OSError):
            written.unlink(missing_ok=True)
        raise _unavailable(error) from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_mtime > time.time() else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unavailable(error) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unavailable(error) from error


def _sweep(folder: Path) -> None:
    ends: list[tuple[float, Path]] = []
    now = time.time()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Another process may remove it meanwhile.
                with suppress(FileNotFoundError):
                    end = entry.stat(follow_symlinks=False).st_mtime
                    # Another sign-in may still write a temporary file, whose time is that of its
                    # last write.
                    if not entry.name.startswith(".") or end <= now - _WRITTEN_WITHIN_SECONDS:
                        ends.append((end, Path(entry.path)))
        ends.sort()
        surplus = len(ends) - MAX_FILES
        for number, (end, path) in enumerate(ends):
            if end > now and number >= surplus:
                break
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unavailable(error) from error


def _unavailable(error: OSError) -> CacheUnavailableError:
    return CacheUnavailableError(f"the folder of sessions cannot be used: {error.strerror}")
