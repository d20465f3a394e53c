"""`spanscore doctor` against real servers on loopback: what is well is ok, and what is not says
what to do.
"""

import contextlib
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import trustme
import yaml
from harness import demo_server
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.cli.doctor_machine import cause_of
from spanscore.cli.doctor_server import Probe
from spanscore.cli.main import main
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Target
from spanscore.store.config import Config
from spanscore.store.store import Store

KEY = "test-key-0123456789abcdef"
DAY = "Thu, 01 Jan 1970 00:00:00 GMT"


@contextlib.contextmanager
def http_server(answer):
    """A server on loopback; `answer(path, headers, body)` gives status and body, and perhaps a
    Date.
    """
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            got.append((self.path, self.headers, body))
            status, text, *date = answer(self.path, self.headers, body)
            self.send_response_only(status)
            self.send_header("Date", date[0] if date else self.date_time_string())
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def examine(tmp_path, capsys):
    """Call it with settings, and further arguments, to get the exit code and the findings by what
    they are about.
    """

    def run(*arguments, ports=None, settings=None):
        given = demo_server.configuration(tmp_path, ports or demo_server.Ports.free(), None, None)
        file = tmp_path / "spanscore.yaml"
        file.write_text(yaml.safe_dump(given | (settings or {})))
        code = main(["doctor", "-c", str(file), "--json", *arguments])
        shown = json.loads(capsys.readouterr().out)
        assert shown["ok"] == (code == 0)
        return code, {x["about"]: x for x in shown["checks"]}

    return run


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The ports and the folder of a server that runs."""
    folder, ports = tmp_path_factory.mktemp("server"), demo_server.Ports.free()
    with demo_server.running(folder, ports, demo_server.configuration(folder, ports, None, None)):
        yield ports


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "path", "content_type"),
    [("not_otlp", "/v1/logs", "text/plain"), ("malformed", "/v1/traces", None)],
)
def test_requests_that_were_refused_for_good_are_told_with_what_to_do(
    examine, running, reason, path, content_type
):
    headers = {"Content-Type": content_type or "application/x-protobuf", "Content-Encoding": "gzip"}
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{running.http}{path}", b"no gzip", headers)
        )
    _, found = examine("--no-round-trip", ports=running)
    assert found["senders"]["status"] == "warn"
    assert f"1 {reason}" in found["senders"]["message"]


def exporters(**by_name):
    return {"export": {"exporters": by_name}}


def test_without_a_server_all_that_can_be_looked_at_is(examine):
    code, found = examine()
    assert code == 0
    assert {x for x, finding in found.items() if finding["status"] == "ok"} >= {
        "configuration",
        "journal",
        "store",
        "judge",
    }


@pytest.mark.parametrize("about", ["health", "OTLP/gRPC", "OTLP/HTTP", "round trip"])
def test_without_a_server_what_needs_one_says_so(examine, about):
    _, found = examine()
    assert found[about]["status"] == "warn"
    assert "spanscore serve" in found[about]["fix"]


@pytest.mark.slow
def test_what_is_not_ok_says_what_to_do(examine):
    _, found = examine(
        settings=exporters(otlp_grpc={"endpoint": "127.0.0.1:1", "tls": {"insecure": True}})
    )
    assert [x for x in found.values() if (x["status"] == "ok") != (x["fix"] is None)] == []


def test_a_configuration_that_cannot_be_used_fails(tmp_path, capsys):
    file = tmp_path / "spanscore.yaml"
    file.write_text("juge: {}\nstor: {}")
    assert main(["doctor", "-c", str(file)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "did you mean judge?" in out
    assert out.startswith("FAIL configuration")


def test_a_running_server_is_known(examine, running):
    code, found = examine("--no-round-trip", ports=running)
    assert (code, {found[x]["status"] for x in ("health", "OTLP/gRPC", "OTLP/HTTP")}) == (0, {"ok"})


@pytest.mark.slow
def test_a_span_makes_the_round_trip(examine, running):
    _, found = examine(ports=running)
    assert found["round trip"]["status"] == "ok"
    assert "scores went to otlp_json_file" in found["round trip"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (None, "scores went to otlp_json_file"),
        (["of-acme tenant=acme", "of-acme tenant=acme"], "scores went to otlp_json_file"),
        (["of-acme tenant=acme", "of-all"], "an agent trace was rebuilt, as the counters say"),
    ],
)
def test_a_span_makes_the_round_trip_as_one_of_a_servers_tenants(examine, tmp_path, tokens, told):
    settings = {"tenancy": {"enabled": True}}
    if tokens is not None:
        for name, line in zip(("http", "api"), tokens, strict=True):
            (tmp_path / name).write_text(line, encoding="utf-8")
        extensions = {
            f"bearertokenauth/{x}": {"filename": str(tmp_path / x)} for x in ("http", "api")
        }
        auth = {x: {"auth": {"authenticator": f"bearertokenauth/{x}"}} for x in ("http", "api")}
    ports = demo_server.Ports.free()
    given = demo_server.configuration(tmp_path, ports, None, None)
    if tokens is not None:
        settings |= {
            "extensions": extensions,
            "receive": given["receive"] | {"http": given["receive"]["http"] | auth["http"]},
            "api": given["api"] | auth["api"],
        }
    with demo_server.running(tmp_path, ports, given | settings):
        _, found = examine(ports=ports, settings=settings)
    assert found["round trip"]["status"] == "ok", found["round trip"]
    assert told in found["round trip"]["message"]


@pytest.mark.slow
def test_with_a_model_as_judge_the_span_costs_nothing(examine, running):
    _, found = examine(
        "--no-judge", ports=running, settings={"judge": {"model": "openai/gpt-4o-mini"}}
    )
    assert found["judge"]["message"] == "openai/gpt-4o-mini: not asked (--no-judge)"
    assert "no model was asked" in found["round trip"]["message"]


@pytest.mark.parametrize(
    ("listener", "about"), [("grpc", "OTLP/gRPC"), ("http", "OTLP/HTTP"), ("health", "health")]
)
def test_a_port_that_something_else_has_is_told(examine, listener, about):
    with http_server(lambda *_: (200, b"{}")) as (url, _):
        ports = demo_server.Ports.free()
        ports = demo_server.Ports(
            **{x: getattr(ports, x) for x in ports.__slots__} | {listener: int(url.split(":")[-1])}
        )
        _, found = examine(ports=ports)
    assert found[about]["status"] == ("warn" if listener == "health" else "FAIL")
    assert f"receive.{listener}.endpoint" in found[about]["fix"]


@pytest.mark.parametrize(
    "what", [{"journal": {"path": "{}/j.db"}}, {"store": {"url": "sqlite:///{}/s.db"}}]
)
def test_a_folder_that_cannot_be_written_fails(examine, tmp_path, what):
    (tmp_path / "file").touch()
    settings = json.loads(json.dumps(what).replace("{}", str(tmp_path / "file")))
    code, found = examine(settings=settings)
    (about,) = what
    assert (code, found[about]["status"]) == (1, "FAIL")


def test_a_damaged_store_fails_and_names_the_repair(examine, tmp_path):
    (tmp_path / "damaged.db").write_bytes(b"no database at all" * 1000)
    code, found = examine(settings={"store": {"url": f"sqlite:///{tmp_path}/damaged.db"}})
    assert (code, found["store"]["status"], "spanscore repair" in found["store"]["fix"]) == (
        1,
        "FAIL",
        True,
    )


def test_a_score_whose_record_is_damaged_is_named(examine, tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    store = Store.open(Config(url=url))
    score = Evaluation(
        scope="trace",
        subject_id="0c",
        metric="plan_quality",
        outcome=Score(0.5, "so"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", "rules", "1"),
        target=Target("0a" * 16, "0b" * 8, 1, 2, {"service.name": "shop"}),
        session_id="7",
    )
    store.commit([], [score])
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        damaged = "UPDATE scores SET record = CAST(replace(record, 'shop', x'ff') AS TEXT)"
        db.execute(damaged)
    code, found = examine(settings={"store": {"url": url}})
    assert (code, found["store"]["status"]) == (0, "warn")
    assert (
        f"score (trace_id {'0a' * 16}, session_id 7, metric plan_quality)"
        in (found["store"]["message"])
    )


def test_a_store_of_another_version_fails(examine, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "older.db")) as db:
        db.executescript("CREATE TABLE scores (number); PRAGMA user_version = 23")
    code, found = examine(settings={"store": {"url": f"sqlite:///{tmp_path}/older.db"}})
    assert (code, found["store"]["status"]) == (1, "FAIL")
    assert "of version 23, and this spanscore reads version 1" in found["store"]["message"]


@pytest.mark.parametrize(("free_mib", "status"), [(10, "FAIL"), (1000, "warn"), (10_000, "ok")])
def test_a_disk_without_room_is_told(examine, monkeypatch, free_mib, status):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_mib * 2**20))
    assert examine()[1]["journal"]["status"] == status


def test_looking_leaves_no_file_behind(examine, tmp_path):
    examine(settings={"journal": {"path": str(tmp_path / "data/journal.db")}})
    assert list((tmp_path / "data").iterdir()) == []


def test_a_file_for_scores_is_not_made(examine, tmp_path):
    _, found = examine(settings=exporters(otlp_json_file={"path": str(tmp_path / "scores.jsonl")}))
    assert found["otlp_json_file"]["status"] == "ok"
    assert not (tmp_path / "scores.jsonl").exists()


def test_a_backend_that_takes_a_span_is_ok(examine):
    with http_server(lambda *_: (200, b"")) as (url, got):
        code, found = examine(
            settings=exporters(otlp_http={"endpoint": url, "compression": "none"})
        )
    assert (code, found["otlp_http"]["status"]) == (0, "ok")
    paths = [path for path, _, body in got if body or path != "/"]
    assert paths == ["/v1/traces", "/v1/logs", "/v1/metrics"]


def test_the_span_is_marked_so_that_nobody_evaluates_it(examine):
    with http_server(lambda *_: (200, b"")) as (url, got):
        examine(settings=exporters(otlp_http={"endpoint": url, "compression": "none"}))
    request = ExportTraceServiceRequest.FromString(
        next(body for path, _, body in got if path == "/v1/traces")
    )
    scoped = request.resource_spans[0].scope_spans[0]
    assert scoped.scope.name == "spanscore"
    assert "spanscore.emitted" in {x.key for x in scoped.spans[0].attributes}


def test_a_backend_without_a_place_for_a_signal_is_a_warning(examine):
    with http_server(lambda path, *_: (404 if path == "/v1/logs" else 200, b"")) as (url, _):
        code, found = examine(settings=exporters(otlp_http={"endpoint": url}))
    assert (code, found["otlp_http"]["status"]) == (0, "warn")
    assert "logs" in found["otlp_http"]["message"]


@pytest.mark.parametrize("status", [400, 401, 503])
def test_a_backend_that_refuses_fails(examine, status):
    with http_server(lambda *_: (status, b"no")) as (url, _):
        code, found = examine(settings=exporters(otlp_http={"endpoint": url}))
    assert (code, found["otlp_http"]["status"]) == (1, "FAIL")
    assert f"HTTP {status}" in found["otlp_http"]["message"]


@pytest.mark.slow
def test_a_backend_that_is_down_fails(examine):
    code, found = examine(
        settings=exporters(
            otlp_grpc={"endpoint": "127.0.0.1:1", "tls": {"insecure": True}, "timeout": "1s"}
        )
    )
    assert (code, found["otlp_grpc"]["status"]) == (1, "FAIL")


def langfuse(path, headers, _):
    return (200, b"{}") if headers.get("Authorization") == "Basic cGs6c2s=" else (401, b"{}")


@pytest.mark.parametrize(("secret", "status"), [("sk", "ok"), ("another", "FAIL")])
def test_a_tool_is_asked_with_the_credentials(examine, secret, status):
    with http_server(langfuse) as (url, _):
        tool = {"endpoint": url, "public_key": "pk", "secret_key": secret}
        _, found = examine(settings=exporters(langfuse=tool))
    assert found["langfuse"]["status"] == status


@pytest.mark.parametrize("name", ["phoenix", "mlflow"])
def test_a_tool_that_answers_is_ok(examine, name):
    with http_server(lambda *_: (200, b"{}")) as (url, _):
        _, found = examine(settings=exporters(**{name: {"endpoint": url}}))
    assert found[name]["status"] == "ok"


@pytest.mark.parametrize(
    ("date", "status"), [((), "ok"), ((DAY,), "FAIL"), (("nonsense",), "warn")]
)
def test_clocks_are_compared(examine, date, status):
    with http_server(lambda *_: (200, b"", *date)) as (url, _):
        _, found = examine(settings=exporters(otlp_http={"endpoint": url}))
    assert found["clocks"]["status"] == status


def chat(path, headers, body):
    content = json.dumps({"right": True})
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    made = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return 200, json.dumps(made).encode()


def judge(url, **settings):
    price = {"input_usd_per_million_tokens": 1.0, "output_usd_per_million_tokens": 5.0}
    given = {
        "model": "openai/scripted",
        "api_base": url,
        "api_key": KEY,
        "prices": {"openai/scripted": price},
    }
    return {"judge": given | settings}


@pytest.mark.slow
def test_the_judge_says_what_it_cost(examine):
    with http_server(chat) as (url, got):
        _, found = examine(settings=judge(url))
    assert found["judge"]["message"].endswith("100 + 20 tokens, 0.000200 USD")
    assert len([path for path, _, _ in got if path.endswith("/chat/completions")]) == 1


@pytest.mark.slow
def test_a_price_that_is_not_known_is_told(examine):
    with http_server(chat) as (url, _):
        _, found = examine(settings=judge(url, prices={}))
    assert (found["judge"]["status"], "judge.prices" in found["judge"]["fix"]) == ("warn", True)


@pytest.mark.slow
def test_the_models_that_a_metric_and_the_rubric_name_are_asked_too(examine):
    evaluation = {
        "metrics": {"confidence": {"model": "openai/of-metric"}},
        "rubric": {"model": "openai/of-rubric"},
    }
    with http_server(chat) as (url, got):
        examine(settings=judge(url) | {"evaluation": evaluation})
    asked = [json.loads(body)["model"] for path, _, body in got if path.endswith("/completions")]
    assert sorted(asked) == ["of-metric", "of-rubric", "scripted"]


def test_the_judge_can_be_spared(examine):
    with http_server(chat) as (url, got):
        examine("--no-judge", settings=judge(url))
    assert got == []


@pytest.mark.slow
def test_a_judge_that_refuses_the_key_fails_and_the_key_is_not_shown(examine):
    error = json.dumps({"error": {"message": f"bad key {KEY}", "type": "error"}}).encode()
    with http_server(lambda *_: (401, error)) as (url, _):
        code, found = examine(settings=judge(url))
    assert (code, found["judge"]["status"]) == (1, "FAIL")
    assert KEY not in json.dumps(found)


def test_the_lines_are_for_people(examine, tmp_path, capsys):
    examine()
    assert main(["doctor", "-c", str(tmp_path / "spanscore.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "configuration"]
    assert any(line.strip().startswith("->") for line in lines)
    assert lines[-1].endswith("warn")


def test_a_server_that_is_stopping_is_told(examine, tmp_path):
    ports = demo_server.Ports.free()
    state = json.dumps(
        {"status": "Server not available", "reason": "the journal is full", "counters": {}}
    ).encode()
    with http_server(lambda *_: (503, state)) as (url, _):
        by_name = {x: getattr(ports, x) for x in ports.__slots__} | {
            "health": int(url.split(":")[-1])
        }
        _, found = examine("--no-round-trip", ports=demo_server.Ports(**by_name))
    assert (found["health"]["status"], "the journal is full" in found["health"]["message"]) == (
        "FAIL",
        True,
    )


@pytest.mark.parametrize(
    ("judge", "status"),
    [
        ({"status": "answers"}, "ok"),
        ({"status": "fails", "reason": "m: wrong key", "fix": "give a valid key"}, "FAIL"),
    ],
)
def test_what_the_running_server_says_of_its_judge_is_told(examine, judge, status):
    ports = demo_server.Ports.free()
    state = json.dumps(
        {"status": "Server available", "judge": {"m": judge}, "counters": {}}
    ).encode()
    with http_server(lambda *_: (200, state)) as (url, _):
        by_name = {x: getattr(ports, x) for x in ports.__slots__} | {
            "health": int(url.split(":")[-1])
        }
        _, found = examine("--no-round-trip", ports=demo_server.Ports(**by_name))
    assert found["server's judge"]["status"] == status
    assert found["server's judge"]["fix"] == (
        judge.get("fix") and f"{judge['fix']}; where the server runs"
    )


def test_an_instrumentation_without_content_is_told_with_its_switch(examine):
    ports = demo_server.Ports.free()
    silent = [
        "a.scope records no questions. To record them, set A=true",
        "b.scope records no questions.",
    ]
    state = json.dumps(
        {"status": "Server available", "without_content": silent, "counters": {}}
    ).encode()
    with http_server(lambda *_: (200, state)) as (url, _):
        by_name = {x: getattr(ports, x) for x in ports.__slots__} | {
            "health": int(url.split(":")[-1])
        }
        _, found = examine("--no-round-trip", ports=demo_server.Ports(**by_name))
    assert found["content"]["message"] == "a.scope records no questions, and 1 more likewise"
    assert found["content"]["fix"] == "set A=true, where the agent runs"


@pytest.mark.slow
def test_no_litellm_is_imported_without_a_model(tmp_path):
    ports = demo_server.Ports.free()
    file = tmp_path / "spanscore.yaml"
    file.write_text(yaml.safe_dump(demo_server.configuration(tmp_path, ports, None, None)))
    script = (
        f"import sys; from spanscore.cli.main import main; main(['doctor', '-c', {str(file)!r}])"
    )
    script += "; print('litellm' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert out.splitlines()[-1] == "False"


@pytest.mark.slow
def test_two_probes_are_two_traces():
    assert Probe().trace_id != Probe().trace_id


@pytest.mark.slow
def test_credentials_in_a_url_are_not_told():
    assert (
        cause_of(OSError("cannot reach https://me:secret@there:1/x"))
        == "cannot reach https://there:1/x"
    )


@pytest.fixture
def secured(tmp_path):
    """Settings with TLS and tokens, and the ports of a server that runs with them."""
    authority, token, ports = trustme.CA(), tmp_path / "token", demo_server.Ports.free()
    pair = authority.issue_cert("spanscore.example")
    pair.private_key_pem.write_to_path(tmp_path / "key.pem")
    for blob in pair.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    token.write_text("a-token-of-ours\n")
    settings = demo_server.configuration(tmp_path, ports, None, None)
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    auth = {"authenticator": "bearertokenauth"}
    settings["extensions"] = {"bearertokenauth": {"filename": str(token)}}
    settings["receive"]["http"] |= {"tls": tls, "auth": auth}
    settings["receive"]["grpc"] |= {"tls": tls}
    settings["api"]["auth"] = auth
    (tmp_path / "server").mkdir()
    with serving(tmp_path / "server", settings, ports):
        yield settings, ports


@contextlib.contextmanager
def serving(folder, settings, ports):
    file = folder / "spanscore.yaml"
    file.write_text(yaml.safe_dump(settings))
    child = subprocess.Popen(
        [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in child.stderr:
            if json.loads(line)["msg"] == "ready":
                break
        yield
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)


@pytest.mark.slow
def test_a_secured_server_is_asked_with_its_own_certificate_and_token(examine, secured):
    settings, ports = secured
    code, found = examine(
        ports=ports, settings={x: settings[x] for x in ("extensions", "receive", "api")}
    )
    assert code == 0
    assert {x: found[x]["status"] for x in ("OTLP/gRPC", "OTLP/HTTP", "round trip")} == {
        "OTLP/gRPC": "ok",
        "OTLP/HTTP": "ok",
        "round trip": "ok",
    }
