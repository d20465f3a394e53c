"""Part the texts that Spring AI's observations list between quotes: no quote inside of them is
escaped.
"""

_BETWEEN = '", "'
_ASSISTANT, _USER, _TOOL = '", "assistant":"', '", "user":"', '", "tool":"'


def texts(listed: str) -> list[str] | None:
    """The texts of `["…", "…"]`; None where they cannot be separated.

    What lies between two texts may lie in one as well, as it does in JSON. Then a quote before it
    stays open.

    >>> texts('["a", "type "yes"", "{"b": "c", "d": "e"}"]'), texts("[]"), texts('["5" wide"]')
    (['a', 'type "yes"', '{"b": "c", "d": "e"}'], [], ['5" wide'])
    >>> texts('["5" wide", "b"]') is None
    True
    """
    inner = listed.strip()
    if inner == "[]":
        return []
    if not (inner.startswith('["') and inner.endswith('"]') and len(inner) > 3):
        return None
    pieces = inner[2:-2].split(_BETWEEN)
    found: list[str] = []
    opened: list[str] = []
    for piece in pieces:
        is_odd = piece.count('"') % 2 == 1
        if opened or is_odd:
            opened.append(piece)
        if is_odd and len(opened) > 1:
            found.append(_BETWEEN.join(opened))
            opened = []
        elif not opened:
            found.append(piece)
    if opened:
        return pieces if len(pieces) == 1 else None
    return found


def system_and_user(listed: str) -> tuple[str | None, str | None]:
    """The texts of those two roles in `["system":"…", "assistant":"…", "user":"…", "tool":""]`,
    always in this order.

    >>> system_and_user('["system":"Be brief.", "user":"{"user":"a", "tool":"b"}"]')
    ('Be brief.', '{"user":"a", "tool":"b"}')
    """
    inner = _BETWEEN[:3] + listed.strip().removeprefix("[").removesuffix("]")
    system = user = None
    if inner.startswith('", "system":"'):
        text = inner.removeprefix('", "system":"')
        ends = [at for at in map(text.find, (_ASSISTANT, _USER, _TOOL)) if at >= 0]
        system = text[: min(ends)] if ends else text.removesuffix('"')
    if (at := inner.find(_USER)) >= 0:
        text = inner[at + len(_USER) :].removesuffix('"')
        user = text.removesuffix(_TOOL)
    return system, user
