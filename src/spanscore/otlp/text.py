"""Text that UTF-8 has a form for."""


def well_formed(text: str) -> str:
    """`text` with what UTF-8 has no form for (lone surrogates, as JSON can escape them) replaced by
    U+FFFD.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
