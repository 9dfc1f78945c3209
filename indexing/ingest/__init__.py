"""How data gets in: sources of lines and reports, what is refused of them, and what was done."""
