"""The index: what it stores, how it is queried, and how data gets in."""
