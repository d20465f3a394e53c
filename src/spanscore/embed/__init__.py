"""Embeddings behind one port."""
