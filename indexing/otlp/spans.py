"""Converts one span to one execution and its run, by the names of its attributes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.accepted_times import check_accepted
from indexing.errors import InvalidValueError
from indexing.failures.texts import cut_message, cut_type
from indexing.failures.traces import bound_trace, pack_trace
from indexing.identifiers import MAX_INTEGER, derive_identity_id, derive_otlp_execution_id
from indexing.job_urls import make_github_url, read_job_url
from indexing.models.executions import (
    FILEPATH_MAX_LENGTH,
    MAX_ATTEMPT,
    Conclusion,
    Execution,
    PullRequest,
    Run,
)
from indexing.names import (
    STORED_NAME_MAX_BYTES,
    RepositoryName,
    check_stored_name,
    check_text,
    replace_refused,
)
from indexing.otlp import attributes as names
from indexing.otlp.requests import Attributes, AttributeValue, ReceivedSpan
from indexing.timestamps import from_microseconds

# `pass` and `fail` come from OpenTelemetry's own registry, the others from plugins.
_CONCLUSIONS: Final = {
    "passed": Conclusion.PASSED,
    "pass": Conclusion.PASSED,
    "failed": Conclusion.FAILED,
    "fail": Conclusion.FAILED,
    "skipped": Conclusion.SKIPPED,
    # RSpec's own word.
    "pending": Conclusion.SKIPPED,
}

# Some plugins hide the failure of a quarantined test from their framework, and then report the
# result that the framework saw.
_EXCUSED: Final = {
    "pytest": Conclusion.SKIPPED,
    "rspec": Conclusion.SKIPPED,
    "vitest": Conclusion.PASSED,
}

_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8

# Nanosecond clocks use signed 64 bits, which end in the year 2262.
_MAX_NANOSECONDS: Final = 2**63 - 1

# The URL of a repository, without query and fragment, to which a path can be added.
_PAGE_OF_REPOSITORY: Final = re.compile(r"https?://[^?#]+")

# No real framework, version or language has a longer name.
LABEL_MAX_LENGTH: Final = 200
# Several times what the common code hosts allow for a title.
TITLE_MAX_LENGTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Facts:
    """The attributes of a span, which override those of its resource."""

    own: Attributes
    resource: Attributes

    def get(self, name: str) -> AttributeValue | None:
        value = self.own.get(name)
        return self.resource.get(name) if _is_blank(value) else value

    def text(self, *alternatives: str) -> str | None:
        """Return the first one that is not blank. A number becomes its digits: ids come as both.

        Raises:
            InvalidValueError: the text contains characters that no store accepts.
        """
        stated = self._first_of(alternatives)
        return None if stated is None else _check(*stated)

    def free_text(self, *alternatives: str) -> str | None:
        """Return what `text` does, but replace the characters that no store accepts."""
        stated = self._first_of(alternatives)
        return None if stated is None else replace_refused(stated[1])

    def _first_of(self, alternatives: Sequence[str]) -> tuple[str, str] | None:
        """Return name and text of the first attribute that is not blank."""
        for name in alternatives:
            value = self.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return name, str(value)
            if isinstance(value, str) and not _is_blank(value):
                return name, value
        return None

    def short_text(self, limit: int, *alternatives: str) -> str | None:
        """Return the text unless it is too long; a cut text would have another meaning."""
        value = self.text(*alternatives)
        return value if value is not None and len(value) <= limit else None

    def integer(self, name: str) -> int | None:
        """Return a whole number that is not negative, else `None`."""
        value = self.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER:
            return value
        return None

    def stored_name(self, *alternatives: str) -> str:
        """Return a required name.

        Raises:
            InvalidValueError: it is missing or not a valid name; the text names the attribute.
        """
        value = self.text(*alternatives)
        if value is None:
            raise InvalidValueError(f"{' or '.join(alternatives)} is missing")
        try:
            return check_stored_name(value)
        except InvalidValueError as error:
            raise InvalidValueError(f"{alternatives[0]} {error}") from error


def _is_blank(value: AttributeValue | None) -> bool:
    return value is None or (isinstance(value, str) and (not value or value.isspace()))


@dataclass(frozen=True, slots=True)
class _Failure:
    """The failure of a test, as its span states it."""

    type: str | None = None
    message: str | None = None
    trace: bytes | None = None


_NO_FAILURE: Final = _Failure()


def to_execution(
    repository: RepositoryName, span: ReceivedSpan, now: datetime
) -> tuple[Run, Execution] | None:
    """Return the run and execution of a span; `None` if the span is not a test.

    A span that ended more than a day after `now` is refused.

    Raises:
        InvalidValueError: the span is a test that cannot be stored; the text names the error.
    """
    facts = _Facts(span.attributes, span.resource)
    if not _is_test(facts):
        return None
    test_name = _read_test_name(facts, span)
    run = _read_run(facts)
    conclusion, needed_retries = _read_result(facts, span)
    failure = _read_failure(facts, span) if conclusion is Conclusion.FAILED else _NO_FAILURE
    trace_id = _check_id("traceId", span.trace_id, _TRACE_ID_BYTES)
    span_id = _check_id("spanId", span.span_id, _SPAN_ID_BYTES)
    identity = derive_identity_id(repository, test_name, run.pipeline_name, run.job_name)
    execution = Execution(
        id=derive_otlp_execution_id(identity, trace_id, span_id),
        test_name=test_name,
        conclusion=conclusion,
        finished_at=_read_end(span, now),
        needed_retries=needed_retries,
        duration=_read_duration(span),
        framework=facts.short_text(LABEL_MAX_LENGTH, names.TEST_FRAMEWORK),
        framework_version=facts.short_text(LABEL_MAX_LENGTH, names.TEST_FRAMEWORK_VERSION),
        language=facts.short_text(LABEL_MAX_LENGTH, names.TEST_LANGUAGE, names.SENDER_LANGUAGE),
        filepath=facts.short_text(FILEPATH_MAX_LENGTH, names.CODE_FILEPATH, names.CODE_FILE_PATH),
        function_name=facts.short_text(
            # As long as the name of a test, which a report gives for it.
            STORED_NAME_MAX_BYTES,
            names.CODE_FUNCTION,
            names.CODE_FUNCTION_NAME,
        ),
        failure_type=failure.type,
        failure_message=failure.message,
        failure_trace=failure.trace,
    )
    return run, execution


def _is_test(facts: _Facts) -> bool:
    scope = facts.get(names.TEST_SCOPE)
    if scope is not None:
        return scope == names.CASE_SCOPE
    # Look at the span's own attributes: a test name in the resource would make every span a test.
    return names.TEST_CASE_NAME in facts.own or names.TEST_CASE_RESULT_STATUS in facts.own


def _read_test_name(facts: _Facts, span: ReceivedSpan) -> str:
    name = facts.text(names.TEST_CASE_NAME)
    try:
        return check_stored_name(span.name if name is None else name)
    except InvalidValueError as error:
        raise InvalidValueError(f"the name of the test {error}") from error


def _read_run(facts: _Facts) -> Run:
    attempt = 1
    if facts.get(names.RUN_ATTEMPT) is not None:
        attempt = facts.integer(names.RUN_ATTEMPT) or 0
        if not 1 <= attempt <= MAX_ATTEMPT:
            raise InvalidValueError(f"{names.RUN_ATTEMPT} must be 1 to {MAX_ATTEMPT}")
    number = facts.integer(names.CHANGE_ID) or None
    return Run(
        run_id=facts.stored_name(names.RUN_ID, names.TEST_RUN_ID),
        attempt=attempt,
        pipeline_name=facts.stored_name(names.PIPELINE_NAME),
        job_name=facts.stored_name(names.PLUGIN_JOB_NAME, names.TASK_NAME),
        branch=_read_branch(facts, number),
        commit=facts.stored_name(names.HEAD_REVISION),
        pull_number=number,
        pull=None if number is None else _read_pull(facts, number),
        job_url=_read_url(facts, names.TASK_RUN_URL, names.RUN_URL, names.PLUGIN_RUN_URL)
        or _make_url(facts),
    )


def _read_branch(facts: _Facts, pull_number: int | None) -> str:
    """Return the name of the head; mark a fork's branch when it has the name of the target branch.

    A pull request cannot merge a branch into itself, so equal names mean two repositories.
    """
    branch = facts.stored_name(names.HEAD_NAME)
    is_of_fork = pull_number is not None and facts.text(names.BASE_NAME) == branch
    return f"fork:{branch}" if is_of_fork else branch


def _read_url(facts: _Facts, *alternatives: str) -> str | None:
    """Return the first one that is a usable URL."""
    for name in alternatives:
        value = facts.get(name)
        url = read_job_url(value) if isinstance(value, str) else None
        if url is not None:
            return url
    return None


def _make_url(facts: _Facts) -> str | None:
    """Return the page of a run of GitHub Actions, which plugins do not state."""
    repository, run = facts.get(names.REPOSITORY_URL), facts.integer(names.RUN_ID)
    if (
        facts.get(names.PROVIDER) != names.GITHUB_ACTIONS
        or run is None
        or not isinstance(repository, str)
        or not _PAGE_OF_REPOSITORY.fullmatch(repository)
    ):
        return None
    address = repository.rstrip("/").removesuffix(".git")
    return make_github_url(address, run, facts.integer(names.RUN_ATTEMPT))


def _read_pull(facts: _Facts, number: int) -> PullRequest | None:
    pull_id = facts.integer(names.PULL_REQUEST_ID)
    title = facts.short_text(TITLE_MAX_LENGTH, names.PULL_REQUEST_TITLE)
    user_id = facts.integer(names.PULL_REQUEST_USER_ID)
    login = facts.short_text(LABEL_MAX_LENGTH, names.PULL_REQUEST_USER_LOGIN)
    if pull_id is None or title is None or user_id is None or login is None:
        return None
    return PullRequest(pull_id, number, title, user_id, login)


def _read_result(facts: _Facts, span: ReceivedSpan) -> tuple[Conclusion, bool]:
    """Return the conclusion, and whether it is a pass that needed retries."""
    conclusion = _read_conclusion(facts, span)
    is_flaky = facts.get(names.TEST_IS_FLAKY) is True
    was_retried = bool(facts.integer(names.TEST_RETRY_COUNT))
    if facts.text(names.TEST_FRAMEWORK) == "pytest":
        if conclusion is Conclusion.FAILED and is_flaky and was_retried:
            # Its plugin states the result of the first attempt, others that of the last one.
            return Conclusion.PASSED, True
        # It also counts the attempts of a test that passed each time, but whose teardown failed.
        was_retried = False
    needed_retries = is_flaky or was_retried or facts.get(names.TEST_NEEDED_RETRIES) is True
    return conclusion, needed_retries and conclusion is Conclusion.PASSED


def _read_conclusion(facts: _Facts, span: ReceivedSpan) -> Conclusion:
    status = facts.get(names.TEST_CASE_RESULT_STATUS)
    framework = facts.text(names.TEST_FRAMEWORK)
    is_quarantined = facts.get(names.TEST_IS_QUARANTINED) is True
    if _is_blank(status):
        if span.is_error:
            return Conclusion.FAILED
        if span.is_ok or framework != "pytest":
            return Conclusion.PASSED
        # The plugin for pytest reports a result and a status for every test that was called.
        # Without them, a fixture has skipped the test or, if it is quarantined, may have failed.
        return Conclusion.FAILED if is_quarantined else Conclusion.SKIPPED
    conclusion = _CONCLUSIONS.get(status.lower()) if isinstance(status, str) else None
    if conclusion is None:
        raise InvalidValueError(
            f"{names.TEST_CASE_RESULT_STATUS} must be passed, failed or skipped"
        )
    if is_quarantined and conclusion is _EXCUSED.get(framework or ""):
        # Otherwise a test that fails would count as recovered.
        return Conclusion.FAILED
    return conclusion


def _read_failure(facts: _Facts, span: ReceivedSpan) -> _Failure:
    """Return the failure, each part cut as for JUnit reports.

    No character of it refuses the span: a test whose failures are lost looks healthy. The stack
    trace is taken for a missing message, unless the span says that there is none.
    """
    if names.EXCEPTION_TYPE not in facts.own and names.EXCEPTION_MESSAGE not in facts.own:
        facts = _Facts(span.exception, facts.own)
    message = None
    if facts.get(names.TEST_WITHOUT_MESSAGE) is not True:
        message = facts.free_text(names.EXCEPTION_MESSAGE, names.EXCEPTION_STACKTRACE)
        if message is None:
            message = replace_refused(span.status_message)
    stack = facts.free_text(names.EXCEPTION_STACKTRACE)
    trace = None if stack is None else bound_trace(stack)
    return _Failure(
        cut_type(facts.free_text(names.EXCEPTION_TYPE)),
        cut_message(message),
        None if trace is None else pack_trace(trace),
    )


def _read_end(span: ReceivedSpan, now: datetime) -> datetime:
    if not 0 < span.ended <= _MAX_NANOSECONDS:
        raise InvalidValueError(
            "endTimeUnixNano must be a number of nanoseconds since 1970, up to the year 2262"
        )
    try:
        return check_accepted(from_microseconds(span.ended // 1_000), now)
    except InvalidValueError as error:
        raise InvalidValueError(f"endTimeUnixNano {error}") from error


def _read_duration(span: ReceivedSpan) -> float | None:
    start, end = span.started, span.ended
    return (end - start) / 1e9 if 0 < start <= end else None


def _check_id(name: str, value: bytes, length: int) -> bytes:
    if len(value) != length or not any(value):
        raise InvalidValueError(f"{name} must be {length} bytes that are not all zero")
    return value


def _check(name: str, text: str) -> str:
    try:
        return check_text(text)
    except InvalidValueError as error:
        raise InvalidValueError(f"{name} {error}") from error
