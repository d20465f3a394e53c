"""Secrets and personal data go; what a judge compares stays."""

import re
import string
from json import dumps

import pytest
from hypothesis import given, strategies as st

from spanscore.judge.redaction import MAX_CHARACTERS, RULES, Redactor, redact, rules


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("Passwort: zq81kfla9", "zq81kfla9", "password"),
        ("Das Kennwort lautet zq81kfla9.", "zq81kfla9", "password"),
        ("contraseña: zq81kfla9", "zq81kfla9", "password"),
        ("mot de passe : zq81kfla9", "zq81kfla9", "password"),
        ("密码\uff1azq81kfla9", "zq81kfla9", "password"),
        ("パスワードはzq81kfla9です", "zq81kfla9", "password"),
        ('{"passwort": "Xy12;geheim99"}', "geheim99", "password"),
        ("{'senha': 'ab;c(d1'}", "c(d1", "password"),
        (dumps({"body": dumps({"kennwort": 'ab12<"geheim"'})}), "geheim", "password"),
        ("Passwort: abc1&Secret9", "Secret9", "password"),
        ("Passwort: Grün2024!geheim", "geheim", "password"),
        ("mot de passe : Éléphant<3,co", "<3,co", "password"),
        ('{"contraseña": "mi perro 1234"}', "perro", "password"),
        ("Das Passwort lautet: „ein Hund 12“", "Hund", "password"),
        ("비밀번호는 abcd1234", "abcd1234", "password"),
        ("密码是123456\uff0c请发账单", "123456", "password"),
        ("Passwort: GeheimerHund oder nichts", "GeheimerHund", "password"),
        ("Passwort: geheimerhund\nBenutzer: anna", "geheimerhund", "password"),
        ('{"value": "zq81kfla9", "name": "DB_PASSWORD"}', "zq81kfla9", "password"),
        ('{"value": "zq81kfla9", "label": "New password"}', "zq81kfla9", "password"),
        ('["--api-key", "zq81kfla9"]', "zq81kfla9", "password"),
        ('mysql --password "hunter two2" shop', "two2", "password"),
        (dumps({"run": 'mysql --password "hunter two2" shop'}), "two2", "password"),
        ("curl -s -u ann:zq81kfla9 https://x.example", "zq81kfla9", "password"),
        ('curl -u "admin:hunter two2" https://x.example', "two2", "password"),
        ("curl -u admin:'hunter two2' https://x.example", "two2", "password"),
        ("curl -s https://x.example \\\n  -u ann:zq81kfla9", "zq81kfla9", "password"),
        (dumps({"run": "curl https://x.example \\\n  -u 'ann:zq 81'"}), "zq 81", "password"),
        ("curl -fsSuann:zq81kfla9 https://x.example", "zq81kfla9", "password"),
        ('["curl", "-u", "ann:hunter two2"]', "two2", "password"),
        ("**Password:** zq81kfla9", "zq81kfla9", "password"),
        ("**Password**: `zq81kfla9`", "zq81kfla9", "password"),
        ("- **API key:** zq81kfla9", "zq81kfla9", "password"),
        ("| Password | zq81kfla9 |", "zq81kfla9", "password"),
        ("Password: ab;cd<ef&gh,ij", "ij", "password"),
        ("password: Grün;geheim2024", "geheim", "password"),
        ("My password is: ab;cd12, thanks", "cd12", "password"),
        ('{"name": "Cookie", "value": "session=zq81kfla9; a=b"}', "zq81kfla9", "token"),
        ('{"value": "lang=en; s=zq81kfla9", "name": "cookie"}', "zq81kfla9", "token"),
        (
            dumps({"b": dumps([{"name": "Set-Cookie", "value": "s=zq81kfla9; Path=/"}])}),
            "zq81kfla9",
            "token",
        ),
        ('{"name": "Authorization", "value": "Basic dXNlcjpwYXNz"}', "dXNlcjpw", "token"),
        ('{"name": "sid", "value": "zq81kfla9", "domain": ".x.example"}', "zq81kfla9", "token"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "token"),
        ("Cookie: lang=de_DE123; session=zq81kfla9", "zq81kfla9", "token"),
        ("Cookie: lang=en; session=zq81kfla9", "zq81kfla9", "token"),
        ("Cookie: theme=dark; a; session=qwertyuiopasdfghjk", "qwertyui", "token"),
        ('{"Set-Cookie": "session=\\"zq81kfla9\\"; Path=/"}', "zq81kfla9", "token"),
        (
            '{"Set-Cookie": ["a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "s=zq81kfla9"]}',
            "zq81kfla9",
            "token",
        ),
        (
            "key sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12 here",
            "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12",
            "api_key",
        ),
        ("sk-ant-api03-" + "aB3_" * 20, "aB3_aB3_", "api_key"),
        ("AIza" + "Sy5" * 11 + "Zz", "Sy5Sy5", "api_key"),
        ("token ghp_" + "a1B2" * 9, "a1B2a1B2", "api_key"),
        ("xoxb-123456789012-abcdefGHIJKL", "123456789012", "api_key"),
        ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWD", "api_key"),
        ("hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345", "AbCdEfGhIjKl", "api_key"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "aws_key"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "wJalrXUtnFEMI",
            "password",
        ),
        ("Authorization: Bearer abc123.def456-ghi", "abc123.def456-ghi", "token"),
        ('{"Authorization": "Basic dXNlcjpwYXNzd29yZDE="}', "dXNlcjpwYXNzd29yZDE=", "token"),
        (
            dumps({"b": dumps({"Authorization": "Basic dXNlcjpwYXNzd29yZDE="})}),
            "dXNlcjpwYXNzd29yZDE=",
            "token",
        ),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP", "eyJzdWIiOiIxMjM0In0", "jwt"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
            "MIIEow",
            "private_key",
        ),
        (
            '"-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\n-----END PRIVATE KEY-----\\n"',
            "MIIEvQ",
            "private_key",
        ),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE", "MHcCAQEE", "private_key"),
        ("postgres://app:s3cr3t@db.internal:5432/x", "s3cr3t", "password"),
        ("password=hunter22&user=x", "hunter22", "password"),
        ('{"password": "correct horse battery"}', "horse", "password"),
        ('{\\"db_password\\": \\"swordfish\\"}', "swordfish", "password"),
        ('{"password": "a\\"bcdef"}', "bcdef", "password"),
        ('{"apiKey": "swordfish"}', "swordfish", "password"),
        (dumps({"body": dumps({"apiKey": "swordfish"})}), "swordfish", "password"),
        (dumps({"b": dumps({"c": dumps({"apiKey": "swordfish"})})}), "swordfish", "password"),
        (
            dumps({"b": dumps({"c": dumps({"d": dumps({"apiKey": "swordfish"})})})}),
            "swordfish",
            "password",
        ),
        (dumps({"body": dumps({"clientSecret": 'sword "fish" of\n old/new'})}), "old", "password"),
        ("my password is hunter22 ok", "hunter22", "password"),
        ('{"apiKeys": "swordfish"}', "swordfish", "password"),
        ('{"passwords": ["swordfish", "hunter22"]}', "hunter22", "password"),
        (dumps({"body": dumps({"secrets": ["swordfish", "hunter22"]})}), "hunter22", "password"),
        ('{"apiKey": {"id": 7, "value": "swordfish"}}', "swordfish", "password"),
        (dumps({"body": dumps({"clientSecret": {"value": "swordfish"}})}), "swordfish", "password"),
        ('{"env": [{"name": "DB_PASSWORD", "value": "swordfish"}]}', "swordfish", "password"),
        (
            dumps({"b": dumps([{"key": "X-Api-Key", "value": "swordfish"}])}),
            "swordfish",
            "password",
        ),
        ("<db><password>swordfish</password></db>", "swordfish", "password"),
        ("mysql --user app --password hunter22 shop", "hunter22", "password"),
        ('{"token": "a1B2c3D4e5F6a1B2c3D4"}', "a1B2c3D4", "token"),
        ("mail anna.smith+x@mail.example.co.uk now", "anna.smith", "email"),
        ("連絡先はa@x.comです", "@x.com", "email"),
        ("番号4111111111111111です", "4111", "card"),
        ("card 4111 1111 1111 1111 exp 12/26", "4111", "card"),
        ("amex 3782-822463-10005", "822463", "card"),
        ('"number": 5555555555554444}', "5555555555554444", "card"),
        ("IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "3704", "iban"),
        ("BE71096123456769", "BE71096123456769", "iban"),
        ("SSN 123-45-6789.", "123-45-6789", "ssn"),
        ("ring +49 (0)30 901820 today", "901820", "phone"),
        ("ring (212) 555-0187", "555", "phone"),
        ("212-555-0187", "0187", "phone"),
        ('{"phone_number": "5551234567"}', "5551234567", "phone"),
        ('{"phone": 5551234567}', "5551234567", "phone"),
        ('{"homePhone": "5551234567"}', "5551234567", "phone"),
        ('{"contactPhoneNumber": "5551234567"}', "5551234567", "phone"),
        ("Telephone: 030 901820", "901820", "phone"),
        ("mobile: 0170 1234567", "1234567", "phone"),
        ('{"mobile": "1701234567"}', "1701234567", "phone"),
        ('{"tel": "030 1234567"}', "1234567", "phone"),
        ("Tel.: 030-1234567", "1234567", "phone"),
        ("Telefon: 030/1234567", "1234567", "phone"),
        ('{\\"phone\\": \\"5551234567\\"}', "5551234567", "phone"),
    ],
)
def test_a_secret_or_personal_value_is_replaced(text, secret, kind):
    redacted = redact(text)

    assert (secret in redacted.text, redacted.counts) == (False, {kind: 1})


@pytest.mark.parametrize(
    "text",
    [
        "Passwort: muss 8 Zeichen haben",
        "Das Passwort ist falsch",
        "密码\uff1a至少8位",
        "Passwort: Bitte geben Sie es ein",
        "La contraseña: incorrecta. 비밀번호가 틀렸습니다",
        "curl -u origin main",
        "curl -s https://x.example | docker run -u 1000:1000 image",
        "curl -sO https://x.example; docker run -u 1000:1000 image",
        "Authorization: Basic authentication is required",
        '{"role": "tool", "content": "A mail was sent to the user.", "name": "reset_password"}',
        '{"name": "reset_password", "content": "A mail was sent to the user."}',
        '{"value": "forgotten", "label": "Forgot password"}',
        "**Password:** *required*, `password`: `string`, a `password:` field",
        "api_key: ${env:API_KEY} secret: $SECRET",
        "| Username | Password | Role |\n| anna | ******** | admin2 |",
        '{"name": "color", "value": "blue", "path": "/"}',
        "Cookie: chocolate chip, 12 pieces, total=12",
        "order #W2890441, item 1504875851, user sara_doe_496",
        "order 112-1234567-1234567 shipped as 1Z999AA10123456784",
        "payment credit_card_4421486, gift_card_8887175, certificate_7504069",
        "flight HAT136 from JFK to SEA on 2024-05-20, DL 1234, gate B12",
        "2024-05-20T10:15:00+02:00 to 2024-05-21 11:30:00.123456Z",
        "started_ns 1732194000123456789, at 1732194000123 ms, 1732194000 s",
        "total 1,234,567.89 USD, 4.111111111111111 and 0.4000000000000002",
        "lat +48.858370, lon -122.419416",
        "trace 4bf92f3577b34da6a3ce929d0e0e4736 span 00f067aa0ba902b7",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "server 192.168.10.12:8080, version 1.12.3, build 20240520.1",
        "isbn 978-3-16-148410-0, case 12-34-5678, zip 94107-1234",
        "card number 4111111111111112 fails its check",
        '{"api_key": {"type": "string"}, "password": "string", "secret": null}',
        (
            '{"password": {"type": "string", "description": "new", "value_type": "text"},'
            ' "required": ["password"]}'
        ),
        '{"passwords": [], "secrets": ["string"], "api_keys": [1, 2], "passwords": ["****"]}',
        '{"name": "password", "value": "string"}, {"name": "city", "value": "Toronto"}',
        "pass --password or --api-key to log in; <password>required</password>",
        '{"token": "abc", "tokens": 4096, "page_token": "CAEQAAaaaa1111aaaa2222"}',
        "The password is incorrect. Password: required. api_key=$API_KEY secret: ******",
        (
            '{"Smartphone": 5990000, "smartPhone": "1234567", "iPhone": 1199000, "headphones":'
            " 2340000}"
        ),
        (
            "Smartphone: 1299000, microphone: 45 000 00, Mobile: 1200000, cell: 1234567, excel:"
            " 1234567"
        ),
        '{"mobile": 1200000, "cells": 12345678, "faxes_sent": 1234567}',
        '{"hotel": "030 1234567", "tel_count": 1234567, "tel": 1234567}',
        "max_tokens=4096, next_page_token: CAEQAA, token: 12, key: value",
        "scikit-learn and task-force-one-two-three-four, risk-adjusted-return-2024",
        "the bearer of good news is well regarded here",
        "+1000 2024-05-01 10:00 (git), room 212 555 0187",
        "npm install left-pad@1.3.0 && ping user@localhost",
        "https://example.com:8080/path?x=1@2",
        "GB82 is not an account number, nor is FR14 2004 1010",
    ],
)
def test_what_a_judge_compares_stays(text):
    assert redact(text).text == text


def test_what_stands_behind_a_secret_in_another_language_stays():
    assert (
        redact("contraseña=hunter22&user=x. 密码是abc123\uff0c请发账单").text
        == "contraseña=[REDACTED:password]&user=x. 密码是[REDACTED:password:2]\uff0c请发账单"
    )


def test_what_stands_behind_a_bare_secret_stays():
    text = "password=hunter22&user=x Password: ab;cd<br>User: x PASSWORD=abcd12&&ls (pwd: abc;1)."

    assert redact(text).text == (
        "password=[REDACTED:password]&user=x Password: [REDACTED:password:2]<br>User: x"
        " PASSWORD=[REDACTED:password:3]&&ls (pwd: [REDACTED:password:4])."
    )


def test_every_user_of_one_curl_is_redacted_also_behind_another_secret():
    text = "curl -H 'X-K: AKIAIOSFODNN7EXAMPLE' -u a:zq81kfla9 --proxy-user 'b:hunter 22' ftp://x"

    assert redact(text).text == (
        "curl -H 'X-K: [REDACTED:aws_key]' -u a:[REDACTED:password]"
        " --proxy-user 'b:[REDACTED:password:2]' ftp://x"
    )


def test_equal_values_have_equal_markers_and_others_another():
    text = "from a@x.com to b@x.com, cc A@x.com"

    assert redact(text).text == (
        "from [REDACTED:email at x.com] to [REDACTED:email:2 at x.com],"
        " cc [REDACTED:email at x.com]"
    )


def test_a_number_is_the_same_however_it_is_grouped():
    assert (
        redact("4111 1111 1111 1111 = 4111-1111-1111-1111").text
        == "[REDACTED:card] = [REDACTED:card]"
    )


def test_a_redactor_numbers_over_all_its_texts():
    redactor = Redactor()
    redactor.redact("a@x.com")

    assert redactor.redact("b@x.com a@x.com") == (
        "[REDACTED:email:2 at x.com] [REDACTED:email at x.com]"
    )


def test_unnumbered_markers_claim_no_identity():
    assert Redactor(numbered=False).redact("a@x.com b@x.com") == (
        "[REDACTED:email:? at x.com] [REDACTED:email:? at x.com]"
    )


@pytest.mark.parametrize(
    ("address", "mark"),
    [
        ("raj@Mail.Example.COM", "[REDACTED:email at mail.example.com]"),
        (f"raj@{'a' * 60}.com", f"[REDACTED:email at {'a' * 60}.com]"),
        (f"raj@{'a' * 61}.com", "[REDACTED:email]"),
        ("raj@4111111111111111.com", "[REDACTED:email]"),
        ("raj@de89370400440532013000.com", "[REDACTED:email]"),
        ("raj@212-555-0187.com", "[REDACTED:email]"),
    ],
)
def test_a_mark_keeps_a_domain_that_is_short_and_hides_no_number(address, mark):
    assert redact(address).text == mark


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("C-12345678", "[REDACTED:email]"),
        ("raj@intranet/x", "[REDACTED:email]"),
        ("raj@intranet.bücher", "[REDACTED:email]"),
        ("raj@mail.intranet", "[REDACTED:email at mail.intranet]"),
    ],
)
def test_a_configured_address_has_a_domain_only_where_it_holds_one(text, mark):
    assert redact(text, rules({"email": r"\S+"})).text == mark


@pytest.mark.parametrize("note", ["", ", seen before", ", first seen here"])
def test_a_mark_with_a_domain_and_a_note_is_not_redacted_again(note):
    text = f"to [REDACTED:email:2 at x.com{note}]"

    assert redact(text, rules({"word": "[a-z]{2,}"})).text.endswith(f" {text[3:]}")


def test_a_configured_pattern_replaces_its_named_group():
    assert (
        redact("customer C-12345678", rules({"customer": r"customer (?P<value>C-\d+)"})).text
        == "customer [REDACTED:customer]"
    )


def test_a_configured_pattern_does_not_see_markers():
    assert redact("a@x.com", rules({"word": "[A-Z]+"})).text == "[REDACTED:email at x.com]"


def test_no_rules_change_nothing():
    assert Redactor(()).redact("a@x.com") == "a@x.com"


def test_a_longer_text_than_is_searched_loses_its_middle():
    assert len(redact("x" * (MAX_CHARACTERS + 5000)).text) < MAX_CHARACTERS + 100


FRAGMENTS = [
    "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12",
    "password=",
    'password: "',
    "Bearer ",
    "a@x.com",
    "@",
    "4111111111111111",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "eyJabcdefgh.",
    "+1",
    "212-555-0187",
    "[REDACTED:",
    "]",
    "[REDACTED:email]",
    "[REDACTED:email:2]",
    "[REDACTED:email:2 at x.com, first seen here]",
    "@x.com, seen before",
    "://u:",
    "DE89370400440532013000",
    " ",
    "\n",
    "'",
    "\\",
    "phone: ",
    "123-45-6789",
    "Passwort: ",
    "密码是",
    "cookie:a=b; ",
    'cookie: ["a=',
    "curl ",
    " -u a:",
    '"value": "',
    '"name": "password", ',
    '"name": "cookie", "value": "a=b',
    "**Password:** ",
    "| password | ",
    "password: a;",
    "-u a:bcde ",
]
HOSTILE = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)), max_size=12).map(
    "".join
)


@pytest.mark.slow
@given(HOSTILE)
def test_redacting_twice_changes_nothing(text):
    once = redact(text).text

    assert redact(once).text == once


@pytest.mark.slow
@given(HOSTILE)
def test_no_email_survives_wherever_it_stands(text):
    found = re.findall(r"(?<![\w.%+-])[a-z]+@x\.com(?![\w.-])", redact(text).text, re.ASCII)

    assert not found


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [*FRAGMENTS, "a", "1 ", "a.", "x@a.", "DE11 ", "sk-", "eyJ-", *string.punctuation]
)
def test_a_long_repetition_of_anything_is_searched_in_linear_time(unit):
    redact(unit * (200_000 // len(unit)))  # a quadratic pattern would run into the suite's time-out


def test_every_kind_is_a_word_that_its_marker_can_carry():
    assert all(re.fullmatch("[a-z][a-z0-9_]*", rule.kind) for rule in RULES)
