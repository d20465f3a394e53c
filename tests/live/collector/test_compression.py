"""Whatever compression a collector's exporter is set to, spanscore reads it, or says what to set
instead.
"""

import pytest

pytestmark = pytest.mark.collector

TURNS = 2
DROP_IN = "collector-config.yaml"
OVER_HTTP = "tests/live/collector/over_http.yaml"
HTTP = ["gzip", "zlib", "deflate", "zstd", "snappy", "x-snappy-framed", "lz4", "none"]


@pytest.mark.parametrize("compression", HTTP)
def test_over_http_every_compression_is_taken(pipeline, tmp_path, compression):
    overlay = tmp_path / "compression.yaml"
    overlay.write_text(f"exporters: {{otlp_http/spanscore: {{compression: {compression}}}}}")
    assert_scored(pipeline(DROP_IN, OVER_HTTP, overlay))


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_over_grpc_gzip_is_taken(pipeline, compression):
    assert_scored(pipeline(environ={"SPANSCORE_COMPRESSION": compression}))


@pytest.mark.parametrize("compression", ["zstd", "snappy"])
def test_what_grpc_refuses_is_counted_and_told_with_what_to_set_instead(
    pipeline, until, compression
):
    line = pipeline(environ={"SPANSCORE_COMPRESSION": compression}).start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.wait_for_spans()
    until(lambda: line.spanscore.state()["counters"].get("receiver_refused_requests"))
    assert "compressed with zstd or snappy (set the sender's `compression` to gzip" in log_of(
        line.spanscore
    )


def assert_scored(line):
    line.start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.wait_for_scores(TURNS)
    assert "Dropping data" not in line.collectors_log()


def log_of(server):
    return (server.folder / "log").read_text()
