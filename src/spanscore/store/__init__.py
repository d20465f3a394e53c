"""The journal, and the store of traces and scores."""
