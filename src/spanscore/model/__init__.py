"""The types that the stages share."""
