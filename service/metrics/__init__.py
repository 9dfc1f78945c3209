"""The metrics of a process: gauges, timed calls of the store, copies for the other workers."""
