"""The catalogue of the 41 event types: validates and normalises each one. No I/O."""
