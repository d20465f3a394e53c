"""The sources of each fact of a turn.

A module of this folder has, for each of its facts, a function for each source, and the sources in
the order in which they count. A source is given a turn's steps (`TurnSteps`) and returns
a `Sourced`: the value, the step that records it, the field of that step, and whether the value
arrived cut. For a turn of one agent step whose input is `[Message("user", "Is it raining?")]`, the
sources of `user_input` give `Sourced(step, "input", "Is it raining?")`. A source that finds nothing
returns None, and the next one is asked.

`SOURCES` in `builder.py` builds the facts, explains them and documents them. It lacks
`available_tools` and `usage`, which are gathered from many steps: their modules contain their
sources. The facts of a tool call are in `calls/call_facts.py`.
"""
