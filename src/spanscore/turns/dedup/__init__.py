"""One call that several instrumentations report is one call."""
