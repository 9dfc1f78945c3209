"""Names of the attributes that say what a test did and where it ran, for readers and writers.

OpenTelemetry's own are those of its semantic conventions; `mergewatch.` names what these have no
word for. What a value means is said where it is read.
"""

from __future__ import annotations

from typing import Final

# About the test.
TEST_CASE_NAME: Final = "test.case.name"
TEST_CASE_RESULT_STATUS: Final = "test.case.result.status"
TEST_SCOPE: Final = "test.scope"
# The scope of a test itself; anything else is a container of tests.
CASE_SCOPE: Final = "case"
TEST_FRAMEWORK: Final = "test.framework"
TEST_FRAMEWORK_VERSION: Final = "test.framework.version"
TEST_LANGUAGE: Final = "test.language"
TEST_NEEDED_RETRIES: Final = "mergewatch.test.needed_retries"
CODE_FILEPATH: Final = "code.filepath"
CODE_FUNCTION: Final = "code.function"
# The names that replaced the two above.
CODE_FILE_PATH: Final = "code.file.path"
CODE_FUNCTION_NAME: Final = "code.function.name"

# About its failure, on the span or on an event of this name.
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# About the run.
PIPELINE_NAME: Final = "cicd.pipeline.name"
TASK_NAME: Final = "cicd.pipeline.task.name"
RUN_ID: Final = "cicd.pipeline.run.id"
RUN_ATTEMPT: Final = "cicd.pipeline.run.attempt"
# What a test framework calls its own run: known where no CI is.
TEST_RUN_ID: Final = "test.run.id"
HEAD_NAME: Final = "vcs.ref.head.name"
HEAD_REVISION: Final = "vcs.ref.head.revision"
# The branch that a pull request is to be merged into.
BASE_NAME: Final = "vcs.ref.base.name"

# About the pull request; its number is text by OpenTelemetry's conventions.
CHANGE_ID: Final = "vcs.change.id"
PULL_REQUEST_ID: Final = "mergewatch.pull_request.id"
PULL_REQUEST_TITLE: Final = "mergewatch.pull_request.title"
PULL_REQUEST_USER_ID: Final = "mergewatch.pull_request.user.id"
PULL_REQUEST_USER_LOGIN: Final = "mergewatch.pull_request.user.login"
