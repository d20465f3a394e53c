"""What the steps of a trace are to each other: their tree, the conversation, where a model waits
for its tools.
"""
