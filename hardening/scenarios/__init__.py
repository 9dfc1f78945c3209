"""One module a scenario: its `run` gives what it found."""
