"""What is derived of executions: dirty markers, and the refresh that computes tests anew."""
