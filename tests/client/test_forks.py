"""A `Client` in a process that was forked from the one that created it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.service.front_door import ROOT

# Another thread holds the lock at the fork, so the child could never take it.
PROGRAM = """
import os, threading
from mergewatch.client import Client

client = Client("http://127.0.0.1:1", "mw_hush")
is_held = threading.Event()

def hold():
    with client._lock:
        is_held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
is_held.wait()
child = os.fork()
if child == 0:
    for work in (lambda: client.get_test("a/b", "x"), lambda: list(client.list_runs("a/b"))):
        try:
            work()
        except RuntimeError as error:
            print(error, flush=True)
    with client:
        pass
    print("closed", flush=True)
else:
    os.waitpid(child, 0)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_client_is_refused_and_can_be_closed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    refused = "the client cannot be used after a fork: create one in each process"
    assert done.stdout.splitlines() == [refused, refused, "closed"]
