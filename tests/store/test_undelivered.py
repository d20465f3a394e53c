"""What an exporter could not deliver is kept until it is sent again, forgotten, or deleted with its
score.
"""

from dataclasses import replace

import pytest

from spanscore.errors import ConfigError
from spanscore.model.score import Undelivered
from spanscore.store import pending
from spanscore.store.config import Config

DAY_NS = 86400 * 10**9


def missed(seq, exporter="otlp_grpc", **facts):
    return Undelivered(exporter, seq, ("traces", "logs"), "fault", "INTERNAL: busy", 5, **facts)


@pytest.fixture
def config(store, make, database_url):
    """The configuration of a store with three scores, of which a server has it open."""
    store.commit([], [make.score(make.trace(), metric) for metric in ("m1", "m2", "m3")])
    return Config(url=database_url)


def test_what_is_noted_with_a_place_is_listed_with_its_score(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(2)])
    [(note, score, is_superseded)] = pending.undelivered(config)
    assert (note, score.metric, is_superseded, store.cursor("otlp_grpc")) == (
        missed(2),
        "m2",
        False,
        3,
    )


def test_exporters_have_notes_of_their_own(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1)])
    store.set_cursor("phoenix", 3, [missed(1, "phoenix"), missed(2, "phoenix")])
    assert store.undelivered() == {"otlp_grpc": (1, 0), "phoenix": (2, 0)}
    assert [x.note.seq for x in pending.undelivered(config, ["phoenix"])] == [1, 2]


def test_nothing_is_sent_again_that_nobody_asked_for(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1)])
    assert store.to_send_again("otlp_grpc", 10) == []


def test_what_is_asked_for_beside_a_server_is_found_by_it(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1), missed(3)])
    assert pending.resend(config, ["otlp_grpc"]) == 2
    assert [(note.seq, note.to_resend) for note, _, _ in store.to_send_again("otlp_grpc", 10)] == [
        (1, True),
        (3, True),
    ]


def test_only_those_of_the_exporters_that_are_named_are_asked_for(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1)])
    assert (pending.resend(config, ["phoenix"]), store.undelivered()) == (0, {"otlp_grpc": (1, 0)})


def test_what_arrived_is_forgotten_and_what_did_not_is_noted_anew(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1), missed(2)])
    pending.resend(config)
    store.settle("otlp_grpc", [1, 2], [replace(missed(2), reason="refused")])
    assert [(x.note.seq, x.note.reason, x.note.to_resend) for x in pending.undelivered(config)] == [
        (2, "refused", False)
    ]


def test_what_is_forgotten_is_listed_no_more(store, config):
    store.set_cursor("otlp_grpc", 3, [missed(1), missed(2)])
    assert (pending.forget_undelivered(config), list(pending.undelivered(config))) == (2, [])


@pytest.mark.slow
def test_a_score_with_a_later_revision_is_marked(store, config, make):
    store.set_cursor("otlp_grpc", 3, [missed(1)])
    store.commit([], [make.score(make.trace(), "m1", revision=2)])
    assert [x.is_superseded for x in pending.undelivered(config)] == [True]


@pytest.mark.parametrize(("first", "then"), [(None, "run1"), ("run1", None), ("run1", "run2")])
def test_a_score_is_not_superseded_by_one_that_replaces_it_nowhere(
    store, make, database_url, first, then
):
    store.commit([], [make.score(make.trace(), run=first)])
    store.set_cursor("otlp_grpc", 1, [missed(1)])
    store.commit([], [make.score(make.trace(), run=then, revision=2)])
    assert [x.is_superseded for x in pending.undelivered(Config(url=database_url))] == [False]


def test_a_note_goes_with_the_run_that_measured_its_score(store, config, make):
    [seq] = store.commit([], [make.score(make.trace(), run="run1")])
    store.set_cursor("otlp_grpc", seq, [missed(1), missed(seq)])
    store.delete_run_step("run1", with_scores=True)
    assert [x.note.seq for x in pending.undelivered(config)] == [1]
    assert store.undelivered() == {"otlp_grpc": (1, 0)}


def test_a_note_goes_with_its_score(open_store, clock, make):
    store = open_store(max_age="1d")
    store.commit([], [make.score(make.trace())])
    store.set_cursor("otlp_grpc", 1, [missed(1)])
    clock.now_ns += 2 * DAY_NS
    store.prune(clock.now_ns)
    assert store.undelivered() == {}


@pytest.mark.slow
def test_many_are_read_in_pages(open_store, make, database_url):
    store = open_store()
    store.commit([], [make.score(make.trace(), f"m{n}") for n in range(1100)])
    store.set_cursor("otlp_grpc", 1100, [missed(n) for n in range(1, 1101)])
    found = pending.undelivered(Config(url=database_url))
    assert [x.note.seq for x in found] == list(range(1, 1101))


def test_what_a_backend_answers_is_kept_as_text_of_a_bounded_length(store, config):
    store.set_cursor("otlp_grpc", 3, [replace(missed(1), error="\0\ud800" + "x" * 10_000)])
    [(note, _, _)] = pending.undelivered(config)
    assert (len(note.error) <= 500, "\0" in note.error) == (True, False)


@pytest.mark.parametrize("do", [pending.undelivered, pending.resend, pending.forget_undelivered])
def test_without_a_store_none_is_made(do, tmp_path):
    with pytest.raises(ConfigError, match="no store there"):
        list(do(Config(url=f"sqlite:///{tmp_path}/none.db")) or ())
    assert list(tmp_path.iterdir()) == []
