"""The events of single actions on a pull request."""

from __future__ import annotations

from typing import Final

from indexing.events.declaration import declare
from indexing.events.fields import Boolean, Integer, JsonObject, Strings, Text

ACTION_EVENTS: Final = (
    declare("action.assign", added=Strings(), removed=Strings()),
    declare("action.backport", to=Text(), pull_request_number=Integer(), conflicts=Boolean()),
    declare("action.close", message=Text()),
    declare("action.comment", message=Text()),
    declare("action.copy", to=Text(), pull_request_number=Integer(), conflicts=Boolean()),
    declare("action.delete_head_branch", branch=Text()),
    declare("action.dequeue"),
    declare("action.dismiss_reviews", users=Strings()),
    declare("action.edit", draft=Boolean()),
    declare("action.host_actions", workflow=Text(), inputs=JsonObject()),
    declare("action.label", added=Strings(), removed=Strings()),
    declare("action.merge", branch=Text()),
    declare("action.post_check", conclusion=Text(), title=Text(), summary=Text()),
    declare("action.rebase"),
    declare("action.refresh"),
    declare("action.request_reviews", reviewers=Strings(), team_reviewers=Strings()),
    declare(
        "action.review",
        review_type=Text(),
        reviewer=Text(allow_none=True),
        message=Text(allow_none=True),
    ),
    declare("action.squash"),
    declare("action.update"),
)
