"""The layers around every handler, one concern each."""
