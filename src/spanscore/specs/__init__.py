"""What runs and monitors are asked to do: as JSON through the API, and in the configuration."""
