"""What is kept of finished answers and verdicts, in this process or in Redis, and who drops it."""
