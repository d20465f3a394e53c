"""Steps to agent traces: one turn each."""
