"""Embeddings behind one port: a provider's, a local model's, or, where asked for by name, character
n-grams.
"""

from spanscore.embed.config import Config
from spanscore.embed.opening import open_embedder
from spanscore.embed.port import Embedder

__all__ = ["Config", "Embedder", "open_embedder"]
