"""What is stored and what is asked for, as frozen values: no I/O and no HTTP."""
