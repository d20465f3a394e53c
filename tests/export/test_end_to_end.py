"""Store, sender and file exporter together, over a restart."""

import asyncio

from spanscore.export import open_exporters
from spanscore.export.config import Config
from spanscore.export.sender import Sender
from spanscore.store.config import Config as StoreConfig
from spanscore.store.store import Store
from spanscore.telemetry import Meter


async def live(tmp_path, scores, *, forget_cursor=False):
    """One life of a server: commit, offer, deliver, die; perhaps before the cursor is written."""
    config = Config.model_validate(
        {"exporters": {"otlp_json_file": {"path": tmp_path / "out.jsonl"}}, "spans": "all"}
    )
    store = Store.open(StoreConfig(url=f"sqlite:///{tmp_path}/spanscore.db"))
    sender = Sender(config, open_exporters(config), store, Meter())
    running = asyncio.create_task(sender.run())
    sender.offer(list(zip(store.commit([], scores), scores, strict=True)))
    assert await sender.drain(20)
    await sender.stop()
    await running
    if forget_cursor:
        store.set_cursor("otlp_json_file", 0)
    store.close()


async def test_every_score_is_in_the_file_once_although_a_cursor_was_lost(make, tmp_path):
    await live(tmp_path, [make.score(f"first{n}") for n in range(3)], forget_cursor=True)
    await live(tmp_path, [make.score(f"second{n}") for n in range(3)])
    text = (tmp_path / "out.jsonl").read_text()
    assert [
        text.count(f'"pass: {which}{n}"') for which in ("first", "second") for n in range(3)
    ] == [1] * 6
