"""Access by tokens of the code host: decisions from its API, and how long they are valid."""
