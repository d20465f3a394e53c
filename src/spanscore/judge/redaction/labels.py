"""What stands before a secret: its label, its quotes, and what ends it. Shared by the rules."""

import re

# in a string of JSON quotes are escaped, in one within it twice; in Markdown a label is emphasised
LABEL_END = r"\\{0,31}[\"'`*_]{0,3}\s{0,4}[:=][*_]{0,3}\s{0,4}"
LABELS = (
    r"password|passwd|passphrase|passcode|pwd|(?:api|secret|access|private)[ _-]?key|secret|"
    r"(?:access|refresh|auth|session|id)[ _-]?token"
)
NAMED = rf"(?i:{LABELS})(?i:s)?"
QUOTE = r"\\{0,31}[\"']"
QUOTE_OR_NOT = rf"(?:{QUOTE})?"
IN_QUOTES = (  # the first group of a pattern
    r"(\\{1,31})\"(?P<escaped>(?:[^\"\\\n]|(?!\1\")\\{1,63}[^\\\n]){4,})"
    r"|\"(?P<quoted>(?:[^\"\\\n]|\\.){4,})|'(?P<single>[^'\\\n]{4,})"
)
SECRETS = ("pass", "pwd", "key", "secret", "token")
"""Hints of the labels."""

# a tag, or punctuation that ends a clause or begins the next field
_BARE_END = (
    r"(?!</?[A-Za-z][\w-]{0,15}[\s/>]"
    r"|[,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=])|&&|[\u3001\u3002\uff0c\uff1b])"
)
BARE = rf"(?![{{}}()\[\]<>,;&]){_BARE_END}(?:{_BARE_END}[^\s\"'\\]){{4,}}+"
_NO_SECRET = re.compile(
    r"(none|null|true|false|string|str|text|bytes|required|optional|undefined|unknown|empty|missing|invalid|incorrect|"
    r"wrong|expired|changed|reset|protected|must|should|cannot|hidden)[.!?:]*|[*.x_•-]+|\$\{?(?:env:)?[a-z0-9_]+\}?|(/[\w.-]+){2,}/?|<[^>]*>|\[.*|\(redacted.*",
    re.IGNORECASE | re.DOTALL,
)
_CALL = re.compile(r"(?P<name>[A-Za-z_.]{4,64})[(\[]")


def secret(value: str) -> int:
    """No type, word of prose, path, reference or mask, emphasised or not; of code that calls or
    indexes something the name.
    """
    if call := _CALL.match(value):
        return secret(call["name"])
    is_none = _NO_SECRET.fullmatch(value) or _NO_SECRET.fullmatch(value.strip("*_`"))
    return 0 if is_none else len(value)
