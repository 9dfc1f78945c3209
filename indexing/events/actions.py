"""Declares the events of single actions on a pull request."""

from __future__ import annotations

from typing import Final

from indexing.events.declaration import declare
from indexing.events.fields import Boolean, Integer, JsonObject, Strings, Text
from indexing.events.outcomes import CONCLUSIONS, FAILURE, SUCCESS, By

# A copy with conflicts is created, but counts as failed, because a person has to resolve them.
_CONFLICTS: Final = By("conflicts", {True: FAILURE, False: SUCCESS})

ACTION_EVENTS: Final = (
    declare("action.assign", SUCCESS, added=Strings(), removed=Strings()),
    declare(
        "action.backport", _CONFLICTS, to=Text(), pull_request_number=Integer(), conflicts=Boolean()
    ),
    declare("action.close", SUCCESS, message=Text()),
    declare("action.comment", SUCCESS, message=Text()),
    declare(
        "action.copy", _CONFLICTS, to=Text(), pull_request_number=Integer(), conflicts=Boolean()
    ),
    declare("action.delete_head_branch", SUCCESS, branch=Text()),
    declare("action.dequeue", SUCCESS),
    declare("action.dismiss_reviews", SUCCESS, users=Strings()),
    declare("action.edit", SUCCESS, draft=Boolean()),
    declare("action.host_actions", SUCCESS, workflow=Text(), inputs=JsonObject()),
    declare("action.label", SUCCESS, added=Strings(), removed=Strings()),
    declare("action.merge", SUCCESS, branch=Text()),
    declare(
        "action.post_check",
        By("conclusion", CONCLUSIONS),
        conclusion=Text(),
        title=Text(),
        summary=Text(),
    ),
    declare("action.rebase", SUCCESS),
    declare("action.refresh", SUCCESS),
    declare("action.request_reviews", SUCCESS, reviewers=Strings(), team_reviewers=Strings()),
    declare(
        "action.review",
        SUCCESS,
        review_type=Text(),
        reviewer=Text(allow_none=True),
        message=Text(allow_none=True),
    ),
    declare("action.squash", SUCCESS),
    declare("action.update", SUCCESS),
)
