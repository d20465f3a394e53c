"""Secrets behind labels of other languages than English."""

import re
from itertools import pairwise

from spanscore.judge.redaction.labels import IN_QUOTES, LABEL_END, secret
from spanscore.judge.redaction.rule import Rule, credential

_LABELS = (
    r"(?:(?i:passwort|kennwort|contraseña|mot de passe|(?<![a-z])senha|wachtwoord|пароль)"
    r"|密码|密碼|口令|パスワード|비밀번호)"
)
_OTHER_LABEL_END = rf"(?:{LABEL_END}|\s{{0,4}}\uff1a\s{{0,4}})"
_ARE = (
    r"(?:\s{0,4}(?:は|が|是|为|為|은|는|이|가)\s{0,4}"
    r"|[ \t]{1,4}(?i:ist|lautet|es|est|é|is)[ \t]{0,4}[ \t:][ \t]{0,4})"
)
_HINTS = (
    "passwort", "kennwort", "contraseña", "mot de passe", "senha", "wachtwoord", "пароль",
    "密码", "密碼", "口令", "パスワード", "비밀번호",
)  # fmt: skip
_TYPOGRAPHIC = "„“”«»‹›‚‘’「」『』"  # noqa: RUF001 - quotation marks
_IN_OTHER_QUOTES = rf"{IN_QUOTES}|[{_TYPOGRAPHIC}](?P<typographic>[^{_TYPOGRAPHIC}\"\n]{{4,}})"
# up to punctuation that ends a clause or begins the next field; Chinese, Japanese and Korean stand
# right beside a value
_WORD = (
    r"(?:(?![,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=]))"
    r"[^\s\"'\\\u2013-\u206f\u2e80-\ud7ff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uffef\U00020000-\U0003ffff]){4,}+"
)
_ENDS = r"(?=[,;&)\]}>.]{0,8}(?:[ \t]{0,4}(?:$|[\r\n\"'<\\]|[\w-]{1,32} ?[:=])))"
_NO_OTHER_SECRET = re.compile(
    r"(falsch|ungültig|erforderlich|leer|keine?s?|geändert|vergessen|zurückgesetzt|abgelaufen|unbekannt|muss|"
    r"incorrect[ao]|inválid[ao]|requerid[ao]|obligatori[ao]|vací[ao]|ningun[ao]|olvidad[ao]|cambiad[ao]|caducad[ao]|"
    r"incorrect|invalide|requis|obligatoire|oublié|aucun|vide|expiré|modifié|"
    r"incorret[ao]|obrigatóri[ao]|vazi[ao]|nenhuma?|esquecid[ao]|expirad[ao]|alterad[ao]|"
    r"onjuist|ongeldig|verplicht|leeg|geen|vergeten|gewijzigd|verlopen|verkeerd|"
    r"неверный|неверен|неправильный|обязателен|обязательно|пустой|забыт|изменен|изменён|истёк|истек)[.!?:]*",
    re.IGNORECASE,
)


def _other_secret(value: str) -> int:
    """No such word of English, nor of the other languages that have labels."""
    return 0 if _NO_OTHER_SECRET.fullmatch(value) else secret(value)


def _no_word(value: str) -> int:
    """A letter and a digit, a number that is no year, a capital or sign within: prose has none."""
    number = value.isdigit() and not re.fullmatch(r"(?:19|20)\d\d", value)
    within = any(x.islower() and y.isupper() for x, y in pairwise(value))
    signs = re.search(r"\w[!@#$%^&*+=~]+\w", value)
    return len(value) if credential(value) or number or within or signs else 0


RULES = (
    Rule(  # {"passwort": "…"}
        "password",
        re.compile(rf"{_LABELS}{_OTHER_LABEL_END}(?:{_IN_OTHER_QUOTES})"),
        _HINTS,
        _other_secret,
    ),
    Rule(  # Passwort: …, where nothing but the next field follows
        "password",
        re.compile(rf"{_LABELS}{_OTHER_LABEL_END}(?P<value>{_WORD}){_ENDS}"),
        _HINTS,
        _other_secret,
    ),
    Rule(  # Passwort: … in a sentence, 密码是…
        "password",
        re.compile(
            rf"{_LABELS}(?:{_OTHER_LABEL_END}|{_ARE})(?:{_IN_OTHER_QUOTES}|(?P<value>{_WORD}))"
        ),
        _HINTS,
        _no_word,
    ),
)
