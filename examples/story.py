"""The made-up log while it is written, with its random generator; see `make_events.py`."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

PEOPLE = (("ada", 1101), ("grace", 1102), ("linus", 1103), ("margaret", 1104), ("barbara", 1105))

Json = dict[str, Any]


def text_of(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


@dataclass
class Story:
    """The events so far, and the random generator for the next ones."""

    dice: random.Random
    events: list[Json] = field(default_factory=list)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.dice.getrandbits(128), version=4))

    def sha(self) -> str:
        return f"{self.dice.getrandbits(160):040x}"

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def tell(
        self,
        at: datetime,
        event_type: str,
        trigger: str,
        pull_request: int | None = None,
        **metadata: Any,
    ) -> None:
        self.events.append(
            {
                "received_at": text_of(at),
                "trigger": trigger,
                "repository": "demo/mergewatch",
                "pull_request": pull_request,
                "base_ref": None if pull_request is None else "main",
                "type": event_type,
                "metadata": metadata,
            }
        )

    def actor(self) -> Json:
        name, number = self.dice.choice(PEOPLE)
        return {"type": "user", "id": number, "name": name}

    def account(self) -> Json:
        login, number = self.dice.choice(PEOPLE)
        return {"login": login, "id": number, "type": "User"}

    def check(self, name: str, state: str) -> Json:
        url = f"https://ci.example.com/demo/mergewatch/runs/{self.dice.randint(10**5, 10**6)}"
        return {
            "name": name,
            "description": f"{name} is {state}",
            "url": url,
            "details_url": f"{url}/summary",
            "state": state,
            "avatar_url": None,
            "pull_request_head_sha": self.sha(),
        }
