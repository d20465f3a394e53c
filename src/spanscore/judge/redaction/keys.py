"""Secrets that are known by their own form, wherever they stand."""

import re

from spanscore.judge.redaction.rule import Rule

_API_KEYS = (
    # OpenAI, Anthropic, OpenRouter, Langfuse, ...
    r"sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,400}",
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255}|glpat-[A-Za-z0-9_-]{20,64}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{20,255}",  # Slack
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}",  # Stripe
    r"hf_[A-Za-z0-9]{30,64}|gsk_[A-Za-z0-9]{40,64}|xai-[A-Za-z0-9]{40,128}|r8_[A-Za-z0-9]{30,64}",
    r"pplx-[A-Za-z0-9]{40,64}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,128}|dapi[0-9a-f]{32}|tvly-[A-Za-z0-9-]{20,64}",
    r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,255}",
    r"dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
)

RULES = (
    Rule(
        "private_key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----)[\s\S]){0,32768}-----END [A-Z0-9 ]{0,60}-----|[A-Za-z0-9+/=\s\\]*)"
        ),
        ("private key",),
    ),
    Rule(
        "jwt",
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("eyj",),
    ),
    Rule(
        "aws_key",
        re.compile(r"(?<![A-Za-z0-9])A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("akia", "asia", "abia", "acca"),
    ),
    Rule("api_key", re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_API_KEYS)})")),
)
