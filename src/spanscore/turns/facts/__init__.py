"""Where each fact of a turn is taken from: its sources, in their order."""
