"""The types that the stages meet at: frozen, and free of any vendor."""
