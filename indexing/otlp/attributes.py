"""Names of the attributes for a test's result and where it ran, for readers and writers.

OpenTelemetry's names are those of its semantic conventions; `mergewatch.` marks names for what they
do not cover. The code that reads a value explains its meaning.
"""

from __future__ import annotations

from typing import Final

# Attributes of the test.
TEST_CASE_NAME: Final = "test.case.name"
TEST_CASE_RESULT_STATUS: Final = "test.case.result.status"
TEST_SCOPE: Final = "test.scope"
# The scope of a test itself; any other value is a container of tests.
CASE_SCOPE: Final = "case"
TEST_FRAMEWORK: Final = "test.framework"
TEST_FRAMEWORK_VERSION: Final = "test.framework.version"
TEST_LANGUAGE: Final = "test.language"
# The language of the sender, in which the tests of a plugin are written, too.
SENDER_LANGUAGE: Final = "telemetry.sdk.language"
TEST_NEEDED_RETRIES: Final = "mergewatch.test.needed_retries"
# What plugins send: how often the framework itself retried the test, and whether the test both
# passed and failed in the attempts of the framework or the plugin.
TEST_RETRY_COUNT: Final = "cicd.test.retry_count"
TEST_IS_FLAKY: Final = "cicd.test.flaky"
# Whether the plugin found the test in the list of quarantines.
TEST_IS_QUARANTINED: Final = "cicd.test.quarantined"
# True for a failure whose stack trace does not begin with its message.
TEST_WITHOUT_MESSAGE: Final = "mergewatch.test.without_message"
CODE_FILEPATH: Final = "code.filepath"
CODE_FUNCTION: Final = "code.function"
# The newer names of the two attributes above.
CODE_FILE_PATH: Final = "code.file.path"
CODE_FUNCTION_NAME: Final = "code.function.name"

# Attributes of the failure, on the span or on an event of this name.
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# Attributes of the run.
PIPELINE_NAME: Final = "cicd.pipeline.name"
TASK_NAME: Final = "cicd.pipeline.task.name"
# The name that people give a job whose task runs more than once, as in a build matrix.
PLUGIN_JOB_NAME: Final = "mergify.test.job.name"
TASK_RUN_URL: Final = "cicd.pipeline.task.run.url.full"
RUN_URL: Final = "cicd.pipeline.run.url.full"
# The name that plugins use.
PLUGIN_RUN_URL: Final = "cicd.pipeline.run.url"
RUN_ID: Final = "cicd.pipeline.run.id"
RUN_ATTEMPT: Final = "cicd.pipeline.run.attempt"
PROVIDER: Final = "cicd.provider.name"
GITHUB_ACTIONS: Final = "github_actions"
REPOSITORY_URL: Final = "vcs.repository.url.full"
# A test framework's own run id: set even outside of CI.
TEST_RUN_ID: Final = "test.run.id"
HEAD_NAME: Final = "vcs.ref.head.name"
HEAD_REVISION: Final = "vcs.ref.head.revision"
# The target branch of a pull request.
BASE_NAME: Final = "vcs.ref.base.name"

# About the pull request; its number is text by OpenTelemetry's conventions.
CHANGE_ID: Final = "vcs.change.id"
PULL_REQUEST_ID: Final = "mergewatch.pull_request.id"
PULL_REQUEST_TITLE: Final = "mergewatch.pull_request.title"
PULL_REQUEST_USER_ID: Final = "mergewatch.pull_request.user.id"
PULL_REQUEST_USER_LOGIN: Final = "mergewatch.pull_request.user.login"
