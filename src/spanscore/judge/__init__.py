"""LLM judges behind one port."""
