"""Backups of the embedded store: made while it is in use, checked, and restored.

A copy is made of one snapshot of the file, so it holds every transaction committed before the
backup began. In WAL mode a reader does not block writers; the write-ahead log grows meanwhile.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fcntl import LOCK_EX, LOCK_NB, lockf
from pathlib import Path
from typing import Final

from indexing.errors import StoreError, StoreVersionError
from indexing.paths import exists, is_file
from indexing.store.sqlite.driver_errors import make_folder_of, translated_errors
from indexing.store.sqlite.schema import require_known

# Pages copied in one step, which is 4 MiB. Progress is reported after each step.
_PAGES_PER_STEP: Final = 1_024
# Steps of SQLite's virtual machine between two progress reports of a check.
_STEPS_PER_REPORT: Final = 10_000_000

# The bytes that SQLite locks: in WAL mode, each process with the database open locks one or more
# of this range. https://www.sqlite.org/src/file/src/os.h
_SHARED_FIRST: Final = 0x40000002
_SHARED_SIZE: Final = 510

_SIDE_FILES: Final = ("-wal", "-shm", "-journal")

# Called with the activity, the bytes done, and the total if it is known.
Progress = Callable[[str, int, int | None], None]

# Returns a context in which the errors of a path become this project's errors.
Translate = Callable[[Path], AbstractContextManager[None]]


class ExistingFileError(StoreError):
    """A file is in the place of the copy, and may not be replaced."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A checked copy: the version of its tables, and its size in bytes."""

    version: int
    size: int


def back_up(store: Path, target: Path, *, overwrite: bool, progress: Progress) -> Copy:
    """Write a consistent, checked copy of the store to one file that only its owner may read.

    The name `target` appears only once the copy is complete, checked and on disk.

    Raises:
        ExistingFileError: there is such a file.
        StoreError: the copy could not be made; the text says why.
    """
    with translated_errors(store):
        if not is_file(store):
            raise StoreError(f"there is no store at {store}")
    with _backup_errors(target):
        _check_target(store, target, overwrite=overwrite)
    with _beside(target, _backup_errors(target)) as partial:
        with translated_errors(store), closing(_open(store, "rw")) as source:
            require_known(source)
            _copy(source, partial, progress)
        copy = _check(partial, store, progress, translated_errors)
        with _backup_errors(target):
            if not overwrite and exists(target):
                raise ExistingFileError(f"{target} was created meanwhile")
        _put(partial, target)
    return copy


def restore(backup: Path, store: Path, *, overwrite: bool, progress: Progress) -> Path | None:
    """Replace the store by a checked copy of a backup; no process may have the store open.

    Returns the new path of the previous store, if there was one.

    Raises:
        ExistingFileError: there is a store.
        StoreError: the backup is damaged, or the store is in use; nothing was changed.
    """
    with _backup_errors(backup):
        if not is_file(backup):
            raise StoreError(f"there is no file {backup}")
    with translated_errors(store):
        if exists(store) and not overwrite:
            raise ExistingFileError(f"there is a store at {store} already")
    make_folder_of(store)
    with _beside(store, translated_errors(store)) as partial:
        with (
            _openable(backup, store) as (path, mode),
            _backup_errors(backup),
            closing(_open(path, mode)) as source,
        ):
            require_known(source)
            _copy(source, partial, progress)
        _check(partial, backup, progress, _backup_errors)
        with translated_errors(store):
            _give_new_id(partial)
            # This may take seconds, so the store is still in its place meanwhile.
            _sync(partial)
            with _held_alone(store):
                if not overwrite and exists(store):
                    raise ExistingFileError(f"a store was created at {store} meanwhile")
                return _replace(store, partial)


@contextmanager
def _backup_errors(path: Path) -> Iterator[None]:
    """Translate errors of a backup, which do not make the store unavailable."""
    try:
        yield
    except (sqlite3.Error, OSError, StoreVersionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"{path} cannot be used as a backup: {reason}") from error


def _give_new_id(copy: Path) -> None:
    """Give a copy a store id of its own.

    What was written after the backup may have the same row ids as what will be written now. So
    cursors, ids of streams and cached answers of that time must not be used for this store.
    """
    with closing(_open(copy, "rw")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(
            "UPDATE meta SET value = ? WHERE name = 'store_id'", (uuid.uuid4().hex.encode(),)
        )


def _check_target(store: Path, target: Path, *, overwrite: bool) -> None:
    if target.is_dir():
        raise StoreError(f"{target} is a folder: name the file too")
    if exists(target):
        if target.samefile(store):
            raise StoreError(f"{target} is the store itself")
        if not overwrite:
            raise ExistingFileError(f"{target} exists already")
    if not target.parent.is_dir():
        raise StoreError(f"there is no folder {target.parent}")
    # SQLite would take the backup for a part of the store, and a service may have the file open.
    real = store.resolve()
    companions = [real.with_name(real.name + end) for end in _SIDE_FILES]
    if target.parent.resolve() / target.name in companions:
        raise StoreError(f"{target} is the name of a companion file of the store")


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
    )


def _copy(source: sqlite3.Connection, target: Path, progress: Progress) -> None:
    (page_size,) = source.execute("PRAGMA page_size").fetchone()
    # The transaction holds one snapshot for all steps, so a write does not restart the copy.
    source.execute("BEGIN")
    source.execute("SELECT count(*) FROM sqlite_master").fetchone()
    with closing(_open(target, "rw")) as copy:
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")

        def report(_status: int, left: int, total: int) -> None:
            progress("copying", (total - left) * page_size, total * page_size)

        try:
            source.backup(copy, pages=_PAGES_PER_STEP, progress=report, sleep=0)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise StoreError(f"no space is left in {target.parent}") from error
            raise
    source.execute("COMMIT")


def _check(copy: Path, source: Path, progress: Progress, translate: Translate) -> Copy:
    """Check the integrity of the whole copy; no process may write to it meanwhile.

    Raises:
        StoreError: it is damaged, not a store, or of a newer version; the text names the source.
    """
    size = copy.stat().st_size
    with translate(source), closing(_open(copy, "ro&immutable=1")) as connection:
        version = require_known(connection)
        if version == 0:
            raise StoreError(f"{source} is empty")
        # SQLite does not report the progress of a check; the callback only shows that it runs.
        connection.set_progress_handler(lambda: progress("checking", size, None), _STEPS_PER_REPORT)
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"{source} is damaged: {found}")
    return Copy(version, size)


@contextmanager
def _beside(target: Path, translated: AbstractContextManager[None]) -> Iterator[Path]:
    """Create a file in the same folder; remove it afterwards unless it was renamed."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with translated:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield path
    finally:
        for end in ("", *_SIDE_FILES):
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).unlink()


@contextmanager
def _openable(backup: Path, store: Path) -> Iterator[tuple[Path, str]]:
    """Yield a path of the backup and the mode in which to open it, which does not modify it.

    If the backup is a plain copy of a folder, its newest transactions are in the write-ahead log
    beside the file. Reading them changes both files, so that happens to copies beside the store.
    """
    log = backup.with_name(f"{backup.name}-wal")
    with _backup_errors(backup):
        has_log = exists(log)
    if not has_log:
        yield backup, "ro&immutable=1"
        return
    with _beside(store, translated_errors(store)) as copied:
        with translated_errors(copied):
            shutil.copyfile(backup, copied)
            shutil.copyfile(log, copied.with_name(f"{copied.name}-wal"))
        yield copied, "rw"


def _put(partial: Path, target: Path) -> None:
    """Rename a file durably: it is whole under its new name even after a power loss."""
    with _backup_errors(target):
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _held_alone(store: Path) -> Iterator[None]:
    """Hold the lock that keeps all other processes from the file, even if it is damaged.

    Raises:
        StoreError: another process has it open.
    """
    if not exists(store):
        yield
        return
    with store.open("r+b") as file:
        try:
            lockf(file, LOCK_EX | LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError as error:
            raise StoreError(
                f"the store {store} is in use: stop every process that works on it first"
            ) from error
        yield


def _replace(store: Path, partial: Path) -> Path | None:
    """Put a file in the place of the store; return the new path of the previous one.

    At no moment is there no store: another process would create one. The companion files of the
    previous store go first, including leftovers of a killed restore; the new one must not get them.
    """
    moment = datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")
    kept = store.with_name(f"{store.name}.replaced-{moment}-{secrets.token_hex(2)}")
    linked = [end for end in ("", *_SIDE_FILES) if _link(store, kept, end)]
    try:
        for end in _SIDE_FILES:
            store.with_name(store.name + end).unlink(missing_ok=True)
        partial.replace(store)
    except OSError:
        for end in linked:
            _link(kept, store, end)
        raise
    _sync(store.parent)
    return kept if linked else None


def _link(old: Path, new: Path, end: str) -> bool:
    """Give a file a second name; return whether there is such a file."""
    with suppress(FileNotFoundError, FileExistsError):
        new.with_name(new.name + end).hardlink_to(old.with_name(old.name + end))
        return True
    return False
