"""The process that serves: its socket, its connections, its workers and its shutdown."""
