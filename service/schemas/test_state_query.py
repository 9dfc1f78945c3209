"""The query parameters of the list of quarantines that plugins of test frameworks read. Pure."""

from __future__ import annotations

from service.schemas.limits import MAX_REF_LENGTH
from service.schemas.queries import Choice, PagedQuery, Text, absent, description, filter_by
from service.schemas.responses import TEST_STATE


class TestStatesQuery(PagedQuery):
    """The filters of the list of quarantined tests that plugins of test frameworks read."""

    __test__ = False

    state = Choice(
        TEST_STATE,
        load_default=TEST_STATE,
        metadata=description("Only quarantined tests are listed."),
    )
    branch_name = Text(
        low=1,
        high=MAX_REF_LENGTH,
        load_default=absent,
        metadata=description("Quarantines that apply to this branch."),
    )
    test_name = Text(
        low=1, load_default=absent, metadata=description("Quarantines of the test of this name.")
    )
    pipeline_name = filter_by(Text(), "Without effect: a quarantine covers all pipelines.")
    job_name = filter_by(Text(), "Without effect: a quarantine covers all jobs.")
