"""Ids of tool calls, of which OpenAI's Responses have two for each call."""


def is_item(identity: str | None) -> bool:
    """Whether an id is that of an item of OpenAI's Responses, which some emitters record instead of
    the call's.

    >>> is_item("fc_68"), is_item("call_68"), is_item(None)
    (True, False, False)
    """
    return identity is not None and identity.startswith("fc_")
