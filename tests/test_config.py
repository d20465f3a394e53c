"""The configuration file: read once, expanded as the collector does, refused with the nearest right
key.
"""

import re

import jsonschema
import pytest
import yaml

from spanscore import config
from spanscore.errors import ConfigError

NO_ENV: dict[str, str] = {}


def parse(text, environ=NO_ENV):
    return config.parse(text, "spanscore.yaml", environ)


def test_an_empty_file_gives_the_defaults():
    assert parse("") == config.default(NO_ENV)


def test_the_default_ports_leave_those_of_collector_jaeger_and_phoenix_alone():
    settings = config.default(NO_ENV)
    endpoints = (
        settings.receive.grpc.endpoint,
        settings.receive.http.endpoint,
        settings.api.endpoint,
    )
    assert endpoints == ("127.0.0.1:4327", "127.0.0.1:4328", "127.0.0.1:4329")
    assert settings.receive.health.endpoint == "127.0.0.1:13133"


@pytest.mark.parametrize(
    "url", ["https://traces.example.com/", "javascript:alert('{trace_id}')", "/trace/{trace_id}"]
)
def test_the_address_of_a_trace_is_one_of_http_with_a_place_for_its_id(url):
    assert parse("page: {trace_url: 'http://t/{trace_id}'}").page.trace_url == "http://t/{trace_id}"
    with pytest.raises(ConfigError, match=r"page\.trace_url: .*http:// or https:// .*\{trace_id\}"):
        parse(f'page: {{trace_url: "{url}"}}')


def test_durations_and_sizes_have_units():
    settings = parse("assemble: {complete_after: 1m30s, max_trace_bytes: 4MiB}")
    assert (settings.assemble.complete_after, settings.assemble.max_trace_bytes) == (
        90 * 10**9,
        4 * 2**20,
    )


def test_a_duration_without_a_unit_is_refused_with_an_example():
    with pytest.raises(ConfigError, match=r"spanscore\.yaml: assemble\.complete_after: .*10s"):
        parse("assemble: {complete_after: 10}")


def test_an_unknown_key_names_the_nearest_right_one():
    with pytest.raises(
        ConfigError, match=r"assemble\.complete_aftr: unknown key; did you mean complete_after\?"
    ):
        parse("assemble: {complete_aftr: 10s}")


def test_an_unknown_key_with_nothing_near_lists_what_is_known():
    with pytest.raises(ConfigError, match=r"xyz: unknown key; known here: mode, "):
        parse("xyz: 1")


@pytest.mark.parametrize("name", ["otlp_grpc", "otlp_grpc/backup"])
def test_an_unknown_key_of_an_exporter_is_named_as_the_file_has_it(name):
    told = (
        rf"spanscore\.yaml: export\.exporters\.{name}\.tls\.insecur: unknown key; did you mean"
        r" insecure\?"
    )
    with pytest.raises(ConfigError, match=told):
        parse(f"export: {{exporters: {{{name}: {{tls: {{insecur: true}}}}}}}}")


def test_inline_mode_with_no_exporter_that_speaks_otlp_is_refused():
    with pytest.raises(ConfigError, match="by OTLP"):
        parse("mode: inline\nexport: {exporters: {phoenix: {}}}")


def test_an_authenticator_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigError, match=r"receive\.http\.auth\.authenticator: bearertokenauth is not"
    ):
        parse("receive: {http: {auth: {authenticator: bearertokenauth}}}")


def test_an_unknown_extension_is_refused_with_those_that_are_known():
    with pytest.raises(
        ConfigError, match="oidc: unknown extension; known are bearertokenauth, headers_setter"
    ):
        parse("extensions: {oidc: {}}")


@pytest.mark.parametrize(
    "place", ["receive: {grpc: {%s}}", "api: {%s}", "export: {exporters: {otlp_grpc: {%s}}}"]
)
def test_whoever_names_an_authenticator_needs_it_to_be_there(place):
    with pytest.raises(
        ConfigError, match=r"auth.authenticator: bearertokenauth is not under extensions"
    ):
        parse(place % "auth: {authenticator: bearertokenauth}")


def test_a_setter_of_headers_checks_nobody():
    text = (
        "extensions: {headers_setter: {headers: [{key: a, value: b}]}}\napi: {auth: {authenticator:"
        " headers_setter}}"
    )
    with pytest.raises(
        ConfigError, match=r"api\.auth\.authenticator: headers_setter checks nobody"
    ):
        parse(text)


def test_headers_of_requests_are_only_there_with_metadata():
    text = "extensions: {headers_setter: {headers: [{key: a, from_context: b}]}}\n"
    with pytest.raises(ConfigError, match="set include_metadata: true"):
        parse(text)
    assert parse(text + "receive: {grpc: {include_metadata: true}}").needed_headers == {"b"}


SETTER = "extensions: {headers_setter: {headers: [{key: X-Scope-OrgID, from_context: %s}]}}\n"


@pytest.mark.parametrize(
    ("tenancy", "from_context"),
    [("{enabled: true}", "X-Scope-OrgID"), ("{enabled: true, header: X-Team}", "x-team")],
)
def test_the_tenants_header_is_the_tenant_that_was_found_and_needs_no_metadata(
    tenancy, from_context
):
    settings = parse(SETTER % from_context + f"tenancy: {tenancy}")
    setter = settings.authenticators["headers_setter"]
    assert setter({}, ((":tenant", "acme"),)) == {"x-scope-orgid": "acme"}
    assert (settings.exports_tenants, settings.needed_headers) == (True, frozenset())


@pytest.mark.parametrize(
    ("tenancy", "from_context"),
    [("{enabled: true}", "x-team"), ("{enabled: false}", "x-scope-orgid")],
)
def test_another_header_is_what_the_sender_sent(tenancy, from_context):
    settings = parse(
        SETTER % from_context + f"tenancy: {tenancy}\nreceive: {{grpc: {{include_metadata: true}}}}"
    )
    setter = settings.authenticators["headers_setter"]
    assert setter({}, ((":tenant", "acme"), (from_context, "sent"))) == {"x-scope-orgid": "sent"}
    assert (settings.exports_tenants, settings.needed_headers) == (False, {from_context})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "export: {exporters: {otlp_http: {endpoint: localhost}}}",
            "write a URL that begins with http:// or https://",
        ),
        ("receive: {health: {path: healthz}}", "write a path, such as /healthz"),
        ("extensions: {bearertokenauth: {token: a, scheme: ''}}", "must not be empty"),
        ("receive: {grpc: {tls: {cert_file: a}}}", "receive.grpc.tls.key_file: is missing"),
    ],
)
def test_what_is_wrong_is_told_in_words(text, said):
    with pytest.raises(ConfigError, match=said):
        parse(text)


def test_inline_mode_without_an_exporter_is_refused():
    with pytest.raises(ConfigError, match=r"export\.exporters must name where to"):
        parse("mode: inline")


def test_every_mistake_is_told_at_once():
    with pytest.raises(ConfigError) as raised:
        parse("mode: sideways\nassemble: {max_spans: 0}")
    assert len(str(raised.value).splitlines()) == 2


def test_a_section_left_empty_is_the_default():
    assert parse("assemble:\nreceive:\n") == config.default(NO_ENV)


@pytest.mark.parametrize(
    ("written", "expanded"),
    [
        ("${env:PORT}", "127.0.0.1:9"),
        ("${PORT}", "127.0.0.1:9"),
        ("${env:UNSET:-127.0.0.1:7}", "127.0.0.1:7"),
        ("127.0.0.1:${env:NUMBER}", "127.0.0.1:8"),
    ],
)
def test_environment_variables_are_expanded(written, expanded):
    settings = parse(f"api: {{endpoint: '{written}'}}", {"PORT": "127.0.0.1:9", "NUMBER": "8"})
    assert settings.api.endpoint == expanded


def test_a_variable_that_is_a_number_is_one():
    assert parse("assemble: {max_spans: '${env:N}'}", {"N": "5"}).assemble.max_spans == 5


def test_two_dollars_are_one():
    assert str(parse("journal: {path: 'a$$b'}").journal.path) == "a$b"


def test_the_judge_of_the_environment_counts_where_the_file_names_none():
    environ = {"SPANSCORE_JUDGE_MODEL": "gpt-4o-mini"}
    assert config.default(environ).judge.model == "gpt-4o-mini"
    assert parse("judge: {model: openai/y}", environ).judge.model == "openai/y"


def test_text_that_is_not_yaml_says_where():
    with pytest.raises(ConfigError, match=r"not YAML.*line 1"):
        parse("a: [")


def test_a_list_at_the_top_is_refused():
    with pytest.raises(ConfigError, match="expected keys"):
        parse("- a")


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="can be read"):
        config.load(tmp_path / "none.yaml")


@pytest.mark.slow
def test_the_published_schema_accepts_what_is_accepted():
    text = "mode: branch\nassemble: {complete_after: 5s}\njournal: {max_bytes: 1GiB}\n"
    parse(text)
    jsonschema.validate(yaml.safe_load(text), config.json_schema())


@pytest.mark.slow
def test_the_published_schema_refuses_an_unknown_key():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"assemble": {"complete_aftr": "5s"}}, config.json_schema())


def undocumented(schema):
    """Keys without a text of their own, whose model has none either."""
    for name, definition in schema["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            model = schema["$defs"].get(value.get("$ref", "").removeprefix("#/$defs/"), {})
            if not (value.get("description") or model.get("description")):
                yield f"{name}.{key}"


def test_every_key_is_documented():
    assert list(undocumented(config.json_schema())) == []


def test_every_default_is_written_as_a_file_would_write_it():
    assemble = config.json_schema()["$defs"]["spanscore__assemble__config__Config"]["properties"]
    assert (assemble["complete_after"]["default"], assemble["max_trace_bytes"]["default"]) == (
        "10s",
        "64MiB",
    )


@pytest.mark.parametrize(
    "given",
    [
        "metrics: {confidence: {threshold: 9}}",
        "metrics: {confidence: {threshold: -1}}",
        "metrics: {loop_detection: {threshold: {ngrams: 9}}}",
        "rules: [{name: a, thresholds: {confidence: 9}}]",
        "rubric: {}\n  rules: [{name: a, thresholds: {rubric.overall: 101}}]",
    ],
)
def test_a_threshold_that_no_score_can_be_is_refused(given):
    with pytest.raises(ConfigError, match=r" is off the scale of \S+, which is 0 to 1"):
        parse(f"evaluation:\n  {given}")


def test_a_threshold_that_is_true_or_false_is_refused():
    with pytest.raises(ConfigError, match="true is no number"):
        parse("evaluation: {metrics: {confidence: {threshold: true}}}")


@pytest.mark.parametrize(
    ("monitor", "why"),
    [
        (
            {"metric": "task_complation"},
            "there is no metric 'task_complation'; did you mean 'task_completion'?",
        ),
        (
            {"metric": "rubric.overall"},
            "rubric.overall is not measured; set it up under evaluation.rubric",
        ),
        ({"metric": "check.tools_on_offer"}, "is not measured; set it up under evaluation.metrics"),
        (
            {"metric": "agent_reliability"},
            "agent_reliability is a score of sessions; write scope: session",
        ),
    ],
)
def test_a_monitor_of_what_is_never_measured_is_refused(monitor, why):
    with pytest.raises(ConfigError, match=re.escape(why)) as caught:
        config.parse(yaml.safe_dump({"monitors": {"quality": monitor}}), "spanscore.yaml")
    assert "spanscore.yaml: " in str(caught.value)
    assert "monitors.quality.metric: " in str(caught.value)


@pytest.mark.parametrize(
    ("evaluation", "monitor"),
    [
        ({}, {"metric": "agent_reliability", "scope": "session"}),
        ({"rubric": {}}, {"metric": "rubric.overall"}),
        (
            {
                "rules": [
                    {"name": "r", "when": {"error": True}, "metrics": {"check.tools_on_offer": {}}}
                ]
            },
            {"metric": "check.tools_on_offer"},
        ),
    ],
)
def test_a_monitor_may_watch_what_any_rule_measures(evaluation, monitor):
    config.parse(yaml.safe_dump({"evaluation": evaluation, "monitors": {"quality": monitor}}))
