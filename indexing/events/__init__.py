"""The catalogue of the 41 event types: what each one holds, checked and normalised, without I/O."""
