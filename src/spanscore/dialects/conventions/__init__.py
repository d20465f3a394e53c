"""Conventions that many instrumentations write."""
