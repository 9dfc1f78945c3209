"""Reads reports that a test spells out."""

from __future__ import annotations

import io

import pytest

from indexing.junit.cases import RefusedCase, ReportCase, ReportError
from indexing.junit.reader import read_report


def read(document: str | bytes) -> list[ReportCase | RefusedCase]:
    data = document.encode() if isinstance(document, str) else document
    return list(read_report(io.BytesIO(data)))


def read_cases(document: str | bytes) -> list[ReportCase]:
    cases = read(document)
    assert all(isinstance(case, ReportCase) for case in cases)
    return [case for case in cases if isinstance(case, ReportCase)]


def read_one(case: str) -> ReportCase:
    (found,) = read_cases(f"<testsuite>{case}</testsuite>")
    return found


def refuse(document: str | bytes) -> str:
    with pytest.raises(ReportError) as refused:
        read(document)
    return str(refused.value)
