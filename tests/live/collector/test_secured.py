"""Mutual TLS and tokens between a real collector and spanscore, there and back, while certificates
are renewed.
"""

import pytest
import trustme
import yaml

pytestmark = pytest.mark.collector

TURNS = 2


class Certificates:
    """A side's certificate in files, and of the other side's authority what it trusts."""

    def __init__(self, folder):
        folder.mkdir()
        self.cert_file, self.key_file, self.authority = (
            folder / "cert",
            folder / "key",
            folder / "ca",
        )
        self.issue(trustme.CA())

    def issue(self, ca):
        issued = ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(self.key_file)
        self.cert_file.write_bytes(b"".join(x.bytes() for x in issued.cert_chain_pems))
        ca.cert_pem.write_to_path(self.authority)

    def as_settings(self, **trusted):
        """TLS as both sides name it; `trusted` is the other side, by the key for its authority."""
        named = {"cert_file": self.cert_file, "key_file": self.key_file}
        named |= {key: other.authority for key, other in trusted.items()}
        return {
            "tls": {key: str(path) for key, path in named.items()} | {"reload_interval": "100ms"}
        }


@pytest.fixture
def sides(tmp_path):
    return Certificates(tmp_path / "spanscore"), Certificates(tmp_path / "collector")


@pytest.fixture
def line(pipeline, tmp_path, sides):
    ours, theirs = sides
    to_spanscore = {"headers": {"authorization": "Bearer right"}} | theirs.as_settings(ca_file=ours)
    to_spanscore["tls"]["insecure"] = False
    from_spanscore = {"protocols": {"grpc": theirs.as_settings(client_ca_file=ours)}}
    overlay = tmp_path / "secured.yaml"
    overlay.write_text(
        yaml.safe_dump(
            {
                "exporters": {"otlp_grpc/spanscore": to_spanscore},
                "receivers": {"otlp/scores": from_spanscore},
            }
        )
    )
    return pipeline(
        "collector-config.yaml",
        overlay,
        exporter=ours.as_settings(ca_file=theirs),
        extensions={"bearertokenauth": {"token": "right"}},
        receive={
            "grpc": {"auth": {"authenticator": "bearertokenauth"}}
            | ours.as_settings(client_ca_file=theirs)
        },
    )


def test_spans_and_scores_go_over_mutual_tls(line):
    line.start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.wait_for_scores(TURNS)
    assert "Dropping data" not in line.collectors_log()


def test_spanscores_certificate_may_be_renewed_by_another_authority(line, sides):
    ours, _ = sides
    line.start()
    line.spanscore.start()
    line.run_agent(TURNS)
    line.wait_for_scores(TURNS)
    ours.issue(trustme.CA())
    # which reads the authority that it trusts at its start; spanscore runs on
    line.collector.stop()
    line.collector.start()
    line.run_agent(TURNS)
    line.wait_for_scores(2 * TURNS)
