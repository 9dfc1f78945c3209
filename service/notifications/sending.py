"""Sends notifications with the HTTP client of the process, until it is cancelled."""

from __future__ import annotations

from indexing.store.interface import Store
from service.config.reach import Reach
from service.notifications.delivery import Delivery
from service.notifications.sender import NotificationSender


async def send_notifications(store: Store, reach: Reach) -> None:
    delivery = Delivery.open(reach)
    try:
        await NotificationSender(store, delivery).run()
    finally:
        await delivery.close()
