"""What is kept: the journal of requests, traces, scores and judge answers."""
