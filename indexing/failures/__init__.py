"""What failures say: which of them say the same, and their stack traces. Pure."""
