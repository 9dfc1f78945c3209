"""The calls that the API reference makes from the values of its form."""

from __future__ import annotations

from service.openapi import build_document
from service.ui.reference import make_url, read_document


def test_parameters_of_one_name_in_path_and_query_have_fields_of_their_own() -> None:
    operation = read_document(build_document(None, ingest=True))["searchTests"]
    fields = [each.field for each in operation.parameters]
    assert len(set(fields)) == len(fields)
    values = {
        "owner": ["acme"],
        "repository_name": ["widgets"],
        "test_name": ["*"],
        "query.owner": ["@acme/web", "none"],
    }
    start = "/v1/ci/acme/repositories/widgets/search/tests?test_name=*"
    assert make_url(operation, values, {}) == f"{start}&owner=%40acme%2Fweb&owner=none"
    del values["query.owner"]
    assert make_url(operation, values, {}) == start


def test_limits_count_in_singular_and_plural() -> None:
    operations = read_document(build_document(None, ingest=True))
    found = {limit for each in operations.values() for p in each.parameters for limit in p.limits}
    assert "at least 1 character" in found
    assert "at most 100 times" in found
    assert not any(each.endswith((" 1 characters", " 1 times")) for each in found)
