"""Where the cache is chosen: this process' own, or the one in Redis that the settings name."""

from __future__ import annotations

from collections.abc import Iterable

from indexing.store.interface import Store, StoreIdentity
from service.cache.backend import Shelf
from service.cache.invalidation import Renewal
from service.cache.memory import LocalShelf
from service.config.secret import choose_secret
from service.config.settings import Settings


async def open_shelf(settings: Settings, store: Store, identity: StoreIdentity) -> Shelf:
    """Open the cache of one store. A Redis that does not answer is looked for again later."""
    if settings.redis_url is None:
        return LocalShelf(store.revision)
    # It takes longer to load than most commands run, and most stores do without it.
    from service.cache.redis import RedisShelf, key_prefix
    from service.cache.redis_connection import RedisLink
    from service.cache.signing import Sealing

    # A backup that was restored beside its store under another prefix has the same id.
    store_id = f"{identity.store_id}:{settings.elasticsearch_prefix}"
    link = RedisLink(settings.redis_url, f"{key_prefix(store_id)}probe".encode())
    await link.open()
    secret = choose_secret(settings.secret, identity.cursor_secret)
    return RedisShelf(link, Sealing(secret), store_id)


class LateRenewal(Renewal):
    """The cache as a command sees it that may write: looked for when it is first needed."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._shelf: Shelf | None = None

    async def renew(self, generations: Iterable[str]) -> None:
        if self._shelf is None:
            identity = await self._store.get_identity()
            self._shelf = await open_shelf(self._settings, self._store, identity)
        await self._shelf.renew(generations)

    async def close(self) -> None:
        if self._shelf is not None:
            await self._shelf.close()
