"""Which traces are parts of one turn, by what the spans record of each other."""
