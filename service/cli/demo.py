"""`mergewatch demo`: loads example data, creates a key, and prints curl commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from indexing.clocks import utc_now
from indexing.errors import MergewatchError
from indexing.identifiers import derive_test_id
from indexing.ingest.counts import IngestCount
from indexing.ingest.events import ingest_events
from indexing.ingest.junit import Refusal, ingest_reports
from indexing.ingest.manifest import read_manifest
from indexing.ingest.sources import open_source
from indexing.models.events import EventKey, EventQuery
from indexing.models.keys import Scope
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.store.interface import Store
from indexing.timestamps import EARLIEST, format_timestamp, from_microseconds
from service.auth.api_keys import make_key, make_key_id
from service.cli.bulk import find_user
from service.cli.demo_dates import ExampleEvents, move_reports, read_events
from service.cli.output import print_count, progress_meters
from service.cli.parameters import FILE_PATH
from service.cli.running import with_store
from service.config.secret import choose_secret
from service.config.settings import Settings, load_settings
from service.http.targets import UI_PREFIX
from service.schemas.limits import DEFAULT_EVENT_RANGE
from service.ui.links import LIFETIME, LINK_FIELD, SIGN_IN, make_link

KEY_NAME: Final = "demo"
_KEY_LIFETIME: Final = timedelta(days=30)

OWNER: Final = "demo"
_EVENTS: Final = RepositoryName(OWNER, "mergewatch")
_TESTS: Final = RepositoryName(OWNER, "lammps")


# Where the examples are in an installed package, and in a checkout.
_FOLDERS: Final = (Path(__file__).parents[1] / "examples", Path(__file__).parents[2] / "examples")


@dataclass(frozen=True, slots=True)
class _Example:
    """A repository, and the examples folder whose manifest lists its reports."""

    repository: RepositoryName
    folder: str
    default_branch: str


_REPORTS: Final = (
    _Example(_TESTS, "lammps", "develop"),
    _Example(RepositoryName(OWNER, "lammps-regression"), "lammps-regression", "preview"),
    _Example(RepositoryName(OWNER, "horovod"), "horovod", "master"),
    _Example(_EVENTS, "mergewatch", "main"),
)


# A flaky test of the examples.
_QUARANTINED: Final = "unit-tests.MolPairStyle:e3b"


class ExamplesError(MergewatchError):
    """The examples are missing, or one of them could not be loaded."""


@click.command()
@click.option(
    "--examples",
    type=FILE_PATH,
    default=lambda: next(filter(Path.is_dir, _FOLDERS), _FOLDERS[0]),
    help="The folder of examples; default: the one shipped with the program.",
)
def demo(examples: Path) -> None:
    """Load the examples into an empty store; print a key and curl commands to try."""
    settings = load_settings()
    lines = with_store(lambda store: _prepare(store, examples, settings), settings)
    for line in lines:
        click.echo(line)


async def _prepare(store: Store, examples: Path, settings: Settings) -> list[str]:
    """Load missing examples; return the lines to print."""
    has_tests = await store.find_repository(_TESTS) is not None
    has_key = any(key.name == KEY_NAME for key in await store.list_keys())
    if not has_tests and await _holds_other_data(store, has_key=has_key):
        return [
            "The store holds other data, so no examples were loaded. To create a key for it:",
            "  mergewatch keys create --name NAME --owner OWNER --scope read",
        ]
    # The key is stored last: no key means that an earlier load was interrupted.
    if not (has_tests and has_key):
        await _load(store, examples)
    moment = utc_now()
    for earlier in await store.list_keys():
        if (earlier.name, earlier.owner) == (KEY_NAME, OWNER):
            await store.revoke_key(earlier.id, moment)
    text, key = make_key(
        key_id=make_key_id(),
        name=KEY_NAME,
        # This scope lets users try to quarantine a test.
        scope=Scope.QUARANTINE,
        owner=OWNER,
        repository=None,
        created_at=moment,
        expires_at=moment + _KEY_LIFETIME,
    )
    request = QuarantineRequest(
        _QUARANTINED, "passes and fails without a code change", actor=find_user()
    )
    quarantine, _ = await store.add_quarantine(_TESTS, request, moment)
    await store.add_key(key)
    base = settings.public_url or f"http://{_local_host(settings.bind)}:{settings.port}"
    newest = await _find_newest(store)
    since = None
    if newest is not None and moment - newest.received_at >= DEFAULT_EVENT_RANGE:
        since = newest.received_at - DEFAULT_EVENT_RANGE
    lines = _lines(base, text, str(quarantine.key.id), since)
    if settings.ui:
        identity = await store.get_identity()
        secret = choose_secret(settings.secret, identity.cursor_secret)
        lines += _ui_lines(base, make_link(secret, key.id, moment))
    return lines


async def _holds_other_data(store: Store, *, has_key: bool) -> bool:
    """Whether a store without the example tests has more than an interrupted load leaves."""
    own = set() if has_key else {example.repository.key for example in _REPORTS}
    return any(found.name.key not in own for found in await store.list_repositories())


async def _load(store: Store, examples: Path) -> None:
    path = examples / "events.ndjson"
    with open_source(str(path)) as source:
        events = read_events(source.lines())
    end = await _choose_end(store, events)
    total = await ingest_events(
        store,
        events.moved_to(end),
        source=str(path),
        refuse=lambda line: _fail(str(line)),
        clock=utc_now,
    )
    for example in _REPORTS:
        total += await _load_reports(store, examples, example, end)
    print_count(total)


async def _choose_end(store: Store, events: ExampleEvents) -> datetime:
    """Return the date of the newest example: now, or the date that an interrupted load used."""
    loaded = await _find_newest(store)
    if loaded is not None and loaded.id in events.received:
        return events.find_end(loaded.id, loaded.received_at)
    return utc_now().replace(microsecond=0)


async def _find_newest(store: Store) -> EventKey | None:
    """Return the key of the newest example event in the store."""
    query = EventQuery(_EVENTS, EARLIEST, utc_now() + DEFAULT_EVENT_RANGE)
    rows = (await store.list_events(query, Anchor(), 1)).rows
    return EventKey(from_microseconds(rows[0].received_microseconds), rows[0].id) if rows else None


async def _load_reports(
    store: Store, examples: Path, example: _Example, end: datetime
) -> IngestCount:
    await store.set_repository(
        example.repository, RepositoryChange(default_branch=example.default_branch), utc_now()
    )
    manifest = examples / example.folder / "manifest.csv"
    with progress_meters() as meters:
        return await ingest_reports(
            store,
            move_reports(read_manifest(manifest, example.repository, clock=utc_now), end),
            refuse=_refuse_report,
            clock=utc_now,
            progress=meters(str(example.repository), "reports"),
        )


def _refuse_report(refusal: Refusal) -> None:
    _fail(f"{refusal.file}: {refusal.reason}")


def _fail(reason: str) -> None:
    raise ExamplesError(f"an example cannot be loaded: {reason}")


def _lines(base: str, key: str, quarantine_id: str, since: datetime | None) -> list[str]:
    """Return a curl command for each of the five operations.

    `since` is set if all events are older than the default time range.
    """
    received_from = "" if since is None else f"received_from={quote(format_timestamp(since))}&"
    test_id = derive_test_id(_TESTS, _QUARANTINED)
    tests = f"{base}/v1/ci/{_TESTS.owner}/repositories/{_TESTS.name}"
    urls = {
        "the newest events": f"{base}/v1/repos/{_EVENTS}/logs?{received_from}per_page=3",
        "tests by name": f"{tests}/search/tests?test_name=*Pair*e3b*&per_page=3",
        "one test": f"{tests}/tests/{test_id}",
        "quarantined tests": f"{tests}/quarantines",
        "one quarantine": f"{tests}/quarantines/{quarantine_id}",
    }
    about = (
        f"A key that reads the repositories of {OWNER}, and quarantines tests there, for 30 days:"
    )
    lines = ["", about, "", f"  {key}", ""]
    for what, url in urls.items():
        lines += [f"# {what}", f"curl -i -H 'Authorization: Bearer {key}' '{url}'"]
    return [*lines, ""]


def _ui_lines(base: str, link: str) -> list[str]:
    """Return lines with a link that opens the dashboard, signed in with the key."""
    minutes = int(LIFETIME.total_seconds()) // 60
    return [
        f"The dashboard; this link signs in, once, within {minutes} minutes:",
        "",
        f"  {base}{UI_PREFIX}{SIGN_IN}?{LINK_FIELD}={link}",
        "",
    ]


def _local_host(bind: str) -> str:
    """Return the URL host that reaches, from this machine, a listener on the address `bind`."""
    if bind in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{bind}]" if ":" in bind else bind
