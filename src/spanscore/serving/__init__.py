"""A running server, from requests to scores."""
