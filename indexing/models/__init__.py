"""What is stored and what is asked for, as frozen values. No I/O, no HTTP, no defaults of either."""
