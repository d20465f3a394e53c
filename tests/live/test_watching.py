"""The real server, watched: what it did is on its page of metrics and arrives by OTLP; machines can
read its log.
"""

import json
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spanscore.telemetry import declared, formats

pytestmark = pytest.mark.slow

CASE = "semconv/message-attributes"


def scrape(running):
    with urllib.request.urlopen(f"http://127.0.0.1:{running.health}/metrics") as answer:
        return {x.name: x for x in text_string_to_metric_families(answer.read().decode())}


def send(running, recorded):
    for body in (recorded.traces.SerializeToString(), b"\xff not OTLP"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{running.http}/v1/traces",
            body,
            {"Content-Type": "application/x-protobuf"},
        )
        urllib.request.urlopen(request).close()


@pytest.fixture(scope="module")
def watched(servers, recording):
    """A server that has scored a recording, and put something aside."""
    recorded, running = recording(CASE), servers().start()
    send(running, recorded)
    running.wait_until_finished(len(recorded.expected))
    return running


def test_the_page_tells_of_every_stage(watched):
    found = scrape(watched)
    totals = {
        name: sum(x.value for x in family.samples)
        for name, family in found.items()
        if family.type == "counter"
    }
    did = (
        "receiver_requests",
        "receiver_accepted_spans",
        "receiver_quarantined_requests",
        "traces_cut",
        "traces_finished",
        "agent_traces",
        "evaluations_scored",
        "exporter_sent_requests",
        "exporter_sent_scores",
        "process_cpu_seconds",
    )
    assert [name for name in did if not totals[f"spanscore_{name}"]] == []


def test_the_page_has_every_declared_metric_with_its_labels(watched):
    found = scrape(watched)
    for metric in declared.METRICS:
        family = found[formats.name(metric).removesuffix("_total")]
        assert {label for x in family.samples for label in x.labels} - {"le"} <= set(metric.labels)


def test_gauges_are_told_as_they_are(watched):
    found = scrape(watched)
    gauges = {
        name: x.samples[0].value for name, x in found.items() if x.type == "gauge" and x.samples
    }
    assert gauges["spanscore_journal_capacity_bytes"] == 2 * 2**30
    assert gauges["spanscore_traces_open"] == 0
    (waiting,) = found["spanscore_exporter_waiting_scores"].samples
    assert waiting.labels == {"exporter": "otlp_json_file"}
    assert gauges["spanscore_process_memory_rss_bytes"] > 0


def test_log_lines_are_json_objects_where_there_is_no_terminal(watched):
    lines = [json.loads(x) for x in (watched.folder / "log").read_text().splitlines()]
    assert "ready" in {x["msg"] for x in lines}
    assert {x["resource"]["service.name"] for x in lines} == {"spanscore"}


def test_a_hundred_bad_requests_in_a_row_are_a_line(server):
    running = server().start()
    for _ in range(100):
        request = urllib.request.Request(
            f"http://127.0.0.1:{running.http}/v1/traces",
            b"\xff",
            {"Content-Type": "application/x-protobuf"},
        )
        urllib.request.urlopen(request).close()
    lines = [x for x in (running.folder / "log").read_text().splitlines() if "put aside" in x]
    assert len(lines) == 1


def test_metrics_leave_by_otlp_and_come_in_elsewhere(server):
    receiver = server().start()
    otlp = {"endpoint": f"http://127.0.0.1:{receiver.http}"}
    sender = server(
        telemetry={
            "metrics": {"readers": [{"periodic": {"interval": "50ms", "exporter": {"otlp": otlp}}}]}
        }
    )
    sender.start()
    receiver.wait_until(lambda state: state["counters"].get("receiver_requests", 0) >= 2)
    sender.stop()
    found = scrape(receiver)["spanscore_receiver_requests"].samples
    assert {tuple(x.labels.values()) for x in found} == {("http", "metrics")}


def status_of(running, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.health}{path}") as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_full_journal_is_told_until_there_is_room(server, tmp_path, recording):
    body = recording(CASE).traces.SerializeToString()
    journal = {"path": str(tmp_path / "j.db"), "max_bytes": len(body) * 3 // 2}
    running = server(journal=journal, assemble={"late_window": "1s"}).stop_clock().start()
    url, headers = (
        f"http://127.0.0.1:{running.http}/v1/traces",
        {"Content-Type": "application/x-protobuf"},
    )
    urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(url, body, headers))
    assert [status_of(running, path) for path in ("/", "/readyz", "/livez")] == [503, 503, 200]
    (refused,) = scrape(running)["spanscore_receiver_refused_requests"].samples
    assert refused.labels["reason"] == "journal_full"
    running.run_clock()
    running.wait_until(lambda state: state["status"] == "Server available")


def test_inline_mode_tells_of_what_it_held_and_let_go(server, recording):
    recorded, running = recording(CASE), server(mode="inline").start()
    send(running, recorded)
    running.wait_until_finished(len(recorded.expected))
    running.wait_until(
        lambda state: state["counters"].get("inline_released_roots", 0) >= len(recorded.expected)
    )
    found = scrape(running)
    assert {x.labels["reason"] for x in found["spanscore_inline_released_roots"].samples} == {
        "scored"
    }
    assert found["spanscore_inline_held_roots"].samples[0].value == 0
    assert found["spanscore_exporter_queue_capacity"].samples[0].value == 1000
