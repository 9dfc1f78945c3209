"""HTTP itself: what a request says, and how a response is written."""
