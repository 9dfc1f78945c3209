"""The names of the attributes that tell of tests, runs and pull requests; each stands here once.

Most are those that the common CI test plugins send, by OpenTelemetry's conventions where there is
one (https://opentelemetry.io/docs/specs/semconv/registry/attributes/).
"""

from __future__ import annotations

from typing import Final

PIPELINE_NAME: Final = "cicd.pipeline.name"
JOB_NAME: Final = "cicd.pipeline.task.name"
RUN_ID: Final = "cicd.pipeline.run.id"
RUN_ATTEMPT: Final = "cicd.pipeline.run.attempt"
BRANCH: Final = "vcs.ref.head.name"
COMMIT: Final = "vcs.ref.head.revision"
FRAMEWORK: Final = "test.framework"
FRAMEWORK_VERSION: Final = "test.framework.version"
# The programming language of the tests.
LANGUAGE: Final = "test.language"

TEST_SCOPE: Final = "test.scope"
SCOPE_OF_TESTS: Final = "case"
TEST_NAME: Final = "test.case.name"
TEST_RESULT: Final = "test.case.result.status"
FAILURE_TYPE: Final = "exception.type"
FAILURE_MESSAGE: Final = "exception.message"
FILEPATH: Final = "code.filepath"
FUNCTION_NAME: Final = "code.function"

# The number of a pull request, as text or as an integer.
CHANGE_ID: Final = "vcs.change.id"
# No convention has names for these.
PULL_ID: Final = "mergewatch.pull_request.id"
PULL_TITLE: Final = "mergewatch.pull_request.title"
PULL_USER_ID: Final = "mergewatch.pull_request.user.id"
PULL_USER_LOGIN: Final = "mergewatch.pull_request.user.login"
NEEDED_RETRIES: Final = "mergewatch.test.needed_retries"
