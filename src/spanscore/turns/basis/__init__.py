"""Trees, conversations and tool boundaries of steps."""
