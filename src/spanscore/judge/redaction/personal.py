"""Personal data: addresses, accounts, cards and numbers of people.

A number is only taken for personal data when a checksum, its form or its label says so, since order
ids, dates, amounts and timestamps are what a judge compares.
"""

import re

from spanscore.judge.checksums import iban_extent, is_card
from spanscore.judge.redaction.labels import LABEL_END
from spanscore.judge.redaction.rule import Rule

_PHONE = (
    r"(?:(?<![A-Za-z])(?i:(?:tele|home|work|office|business|cell|mobile)?[_"
    r" -]?phone)|(?<=[a-z])(?<!i)(?<!smart)Phone)"
    r"(?i:[_ -]?(?:number|no|nr))?"
)
_MOBILE = (
    r"(?<![A-Za-z])(?i:(?:mobile|cell|fax|whatsapp|tel(?:efon)?\.?)(?:[_ -]?(?:number|no|nr))?)"
)


def _card(value: str) -> int:
    return len(value) if is_card(value) else 0


def _international(value: str) -> int:
    """No signed decimal, no time zone with a date behind it."""
    return 0 if re.search(r"^\+\d+\.\d+$|\d{4}-\d\d-\d\d", value) else len(value)


RULES = (
    Rule(
        "email",
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9_-])"
        ),
        ("@",),
    ),
    Rule(
        "iban",
        re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,40}"),
        extent=iban_extent,
    ),
    Rule(
        "card",
        re.compile(
            r"(?<![A-Za-z0-9_.])(?:[0-9]{14,19}|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
            r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})(?![A-Za-z0-9_]|[.-][0-9])"
        ),
        extent=_card,
    ),
    Rule(
        "ssn",
        re.compile(
            r"(?<![A-Za-z0-9_-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![A-Za-z0-9_-])"
        ),
        ("-",),
    ),
    Rule(
        "phone",
        re.compile(r"(?<![A-Za-z0-9_+])\+(?=[1-9])(?:[ ().-]{0,2}[0-9]){8,15}(?![0-9])"),
        ("+",),
        _international,
    ),
    Rule(
        "phone",
        re.compile(
            r"(?<![A-Za-z0-9_.+-])(?:1[ .-])?(?:\([2-9][0-9]{2}\)"
            r" ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}"
            r"(?![A-Za-z0-9_-]|\.[0-9])"
        ),
    ),
    Rule(
        "phone",
        re.compile(
            rf"{_PHONE}{LABEL_END}\\{{0,31}}[\"']?(?P<value>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
        ),
        ("phone",),
    ),
    # a plain number beside these may count or cost something: it is quoted, grouped or begins with
    # 0
    Rule(
        "phone",
        re.compile(
            rf"{_MOBILE}{LABEL_END}(?:\\{{0,31}}[\"'](?P<quoted>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
            r"|(?P<value>(?:\(?0|[0-9]{1,5}[ /-])[0-9 ()./-]{4,18}[0-9]))"
        ),
        ("mobile", "cell", "fax", "whatsapp", "tel"),
    ),
)
