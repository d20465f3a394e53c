"""What is in Kafka is scored, once, whatever happens to servers and brokers."""

import pytest

pytestmark = pytest.mark.kafka


def test_one(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).start()
    topics.write(recording("semconv/message-attributes").copies(4))
    running.wait_until_finished(4)
    print(running.state())
    print((running.folder / "log").read_text())
    running.stop()
    print((running.folder / "log").read_text())
    assert 0
