"""The index and all that fills it: what is stored, how it is queried, and how it gets in."""
