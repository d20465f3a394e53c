"""Check digits tell a card or account number from the order ids and timestamps that merely look
like one.
"""

import re

_CARD_LENGTHS = (
    (re.compile("4"), (16, 19)),  # Visa
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),  # Mastercard
    (re.compile("3[47]"), (15,)),  # American Express
    (re.compile("6011|64[4-9]|65"), (16, 19)),  # Discover
    (re.compile("35(?:2[89]|[3-8])"), (16,)),  # JCB
    (re.compile("3(?:0[0-5]|[689])"), (14,)),  # Diners Club
    (re.compile("62"), (16, 17, 18, 19)),  # UnionPay
)
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def is_card(text: str) -> bool:
    """Whether the digits of `text` are a payment card number: an issuer's prefix and length, and
    Luhn's check digit.

    >>> is_card("4111 1111 1111 1111"), is_card("4111 1111 1111 1112")
    (True, False)
    """
    digits = "".join(c for c in text if c.isdigit())
    if not any(
        prefix.match(digits) and len(digits) in lengths for prefix, lengths in _CARD_LENGTHS
    ):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def iban_extent(text: str) -> int:
    """How many characters at the start of `text` are an IBAN, spaces included; 0: it is none.

    Its country's length and the check digits of ISO 13616 (mod 97) must hold.

    >>> iban_extent("DE89 3704 0044 0532 0130 00 Berlin")
    27
    """
    length = _IBAN_LENGTHS.get(text[:2], 0)
    places = [place for place, character in enumerate(text) if character != " "][:length]
    if not length or len(places) < length:
        return 0
    compact = "".join(text[place] for place in places)
    number = "".join(str(int(character, 36)) for character in compact[4:] + compact[:4])
    return places[-1] + 1 if int(number) % 97 == 1 else 0
