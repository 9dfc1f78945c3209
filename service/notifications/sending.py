"""Runs the notification sender with an HTTP client of its own."""

from __future__ import annotations

from indexing.store.interface import Store
from service.config.reach import Reach
from service.notifications.delivery import Delivery
from service.notifications.sender import NotificationSender


async def send_notifications(store: Store, reach: Reach, dashboard_url: str | None) -> None:
    """Send notifications until cancelled."""
    delivery = Delivery.open(reach)
    try:
        await NotificationSender(store, delivery, dashboard_url=dashboard_url).run()
    finally:
        await delivery.close()
