"""The layers around every handler, one concern each, and the metrics."""
