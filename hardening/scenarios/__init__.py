"""One module for each scenario; its `run` returns the findings."""
