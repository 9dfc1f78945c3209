"""HTTP itself: how requests are read and responses written. Knows no operation's rules."""
