"""A small report, and the options that name its run."""

from __future__ import annotations

RUN = (
    "--repository=acme/widgets",
    "--branch=main",
    "--commit=c0ffee",
    "--pipeline=ci",
    "--job=unit",
    "--run-id=7",
)

REPORT = (
    "<testsuite><testcase classname='a' name='b'/>"
    "<testcase classname='a' name='c'><failure/></testcase></testsuite>"
)
