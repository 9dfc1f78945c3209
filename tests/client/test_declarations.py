"""The client declares the fields and parameters of the OpenAPI document, neither more nor less."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import orjson
import pytest

from mergewatch.client import AsyncClient, Client, bodies, filters
from service.openapi import build_document

DOCUMENT: dict[str, Any] = orjson.loads(build_document(None, ingest=True))
BODIES = {
    "Pull": bodies.Pull,
    "PullUser": bodies.PullUser,
    "TestIdentity": bodies.TestIdentity,
    "TestMetrics": bodies.TestMetrics,
    "TestDetail": bodies.TestDetail,
    "Quarantine": bodies.Quarantine,
    "VerdictCounts": bodies.VerdictCounts,
    "AddedQuarantine": bodies.AddedQuarantine,
    "ChangeActor": bodies.ChangeActor,
    "QuarantineChange": bodies.QuarantineChange,
    "Bar": bodies.Bar,
    "TextFacet": bodies.TextFacet,
    "NumberFacet": bodies.NumberFacet,
    "EventAggregate": bodies.EventAggregate,
    "Execution": bodies.Execution,
    "Failure": bodies.Failure,
    "FailureEvent": bodies.FailureEvent,
    "FailureDetail": bodies.FailureDetail,
    "Run": bodies.Run,
    "Repository": bodies.Repository,
    "TestCounts": bodies.TestCounts,
    "ReportedVerdict": bodies.ReportedVerdict,
    "JobHealth": bodies.JobHealth,
    "HealthReport": bodies.HealthReport,
    "TestTransition": bodies.TestTransition,
    "Transition": bodies.Transition,
    "TestTransitions": bodies.TestTransitions,
    "Series": bodies.Series,
    "TestSeries": bodies.TestSeries,
    "SeriesBar": bodies.SeriesBar,
    "TestGroup": bodies.TestGroup,
    "TestGroups": bodies.TestGroups,
    "LineRefusal": bodies.LineRefusal,
    "EventIntake": bodies.EventIntake,
}
LISTS = {
    "listEvents": filters.EventFilters,
    "aggregateEvents": filters.EventSelection,
    "searchTests": filters.TestFilters,
    "listExecutions": filters.ExecutionFilters,
    "listFailures": filters.FailureFilters,
    "listRuns": filters.RunFilters,
    "listRepositories": filters.RepositoryFilters,
    "listQuarantines": filters.QuarantineFilters,
    "listQuarantineChanges": filters.PageSize,
    "listHealthTransitions": filters.TransitionFilters,
    "getTestHealth": filters.HealthOptions,
    "getStats": filters.StatsFilters,
    "getTestStats": filters.StatsFilters,
    "groupTests": filters.GroupFilters,
}
# Parameters of every list: the client passes the cursor itself.
OWN = {"cursor"}
# `test_name` of the search is an argument of its own.
ARGUMENTS = {"searchTests": {"test_name"}}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_has_the_documented_fields(name: str) -> None:
    properties = DOCUMENT["components"]["schemas"][name]["properties"]
    assert set(get_type_hints(BODIES[name])) == set(properties)


def test_both_clients_have_the_same_methods() -> None:
    def methods(client: type) -> dict[str, list[str]]:
        return {
            name: [*inspect.signature(member).parameters]
            for name, member in vars(client).items()
            if not name.startswith("_") and inspect.isfunction(member)
        }

    asynchronous = methods(AsyncClient)
    del asynchronous["shown"]
    assert methods(Client) == asynchronous


@pytest.mark.parametrize("operation_id", LISTS)
def test_a_list_takes_the_documented_parameters(operation_id: str) -> None:
    (operation,) = (
        operation
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        if isinstance(operation, dict) and operation.get("operationId") == operation_id
    )
    documented = {each["name"] for each in operation["parameters"] if each.get("in") == "query"}
    declared = set(get_type_hints(LISTS[operation_id]))
    assert declared == documented - OWN - ARGUMENTS.get(operation_id, set())


TAKE_PARAMETERS = [
    name
    for name, method in vars(AsyncClient).items()
    if not name.startswith("_") and "Unpack" in str(inspect.signature(method))
]


@pytest.mark.parametrize("name", TAKE_PARAMETERS)
async def test_a_misspelled_parameter_is_an_error(name: str) -> None:
    """The service ignores it, so a list would be that without the filter."""
    assert len(TAKE_PARAMETERS) > 15
    async with AsyncClient("http://127.0.0.1:1", "token") as client:
        method: Any = getattr(client, name)
        positional = [
            "acme/widgets" if parameter.name == "repository" else "x"
            for parameter in inspect.signature(method).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        with pytest.raises(TypeError, match=r"^there is no parameter 'halth_status', only \w+"):
            await method(*positional, halth_status="broken")
