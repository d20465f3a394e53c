"""Coverage-guided fuzzing of reading: recordings, mutated, from bytes to agent traces.

Needs atheris (`make fuzz`).

    python bench/fuzz.py [-max_total_time=300] [-timeout=20] [libFuzzer options] [FOLDER of inputs]

An input is an export request of spans, or, after a first byte that is odd, of log records. A crash,
or an input that takes longer than -timeout, is kept in the folder and replayed by giving the file
instead of it.
"""

import gzip
import json
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["spanscore"]):
    from google.protobuf.message import DecodeError

    from spanscore.model.json import dumps
    from spanscore.model.trace import AgentTrace
    from spanscore.otlp import check, codec
    from spanscore.otlp.check import mend
    from spanscore.otlp.signal import WIRE, Signal
    from spanscore.rebuild import rebuild_all

GOLDEN = Path(__file__).parent.parent / "tests/golden"


def read(content: bytes) -> None:
    """Rebuild what the bytes hold, print it, and read what was printed."""
    signal: Signal = "logs" if content[:1] and content[0] % 2 else "traces"
    try:
        request = WIRE[signal].request.FromString(content[1:])
    except DecodeError:
        try:
            request = WIRE[signal].request.FromString(mend(signal, content[1:]).body)
        except ValueError:
            return
    if signal == "traces":
        check.remove_damaged(request)
        traces = rebuild_all(codec.spans(request), [])
    else:
        traces = rebuild_all([], codec.log_records(request))
    for trace in traces:
        if AgentTrace.from_json(json.loads(dumps(trace.to_json()))).id != trace.id:
            raise AssertionError("an agent trace is another one once it has been printed")


def write_corpus(folder: Path) -> None:
    """The golden recordings as inputs; those over 200 kB would only be slow."""
    for path in sorted(GOLDEN.glob("*/*/*.pb.gz")):
        content = gzip.decompress(path.read_bytes())
        if len(content) < 200_000:
            first = b"\1" if path.name.startswith("logs") else b"\0"
            (folder / f"{path.parent.parent.name}-{path.parent.name}-{path.name}").write_bytes(
                first + content
            )


def main() -> None:
    given = sys.argv[1:]
    if not any(not x.startswith("-") for x in given):
        folder = Path(tempfile.mkdtemp(prefix="spanscore-fuzz-"))
        write_corpus(folder)
        given += [f"-artifact_prefix={folder}/found-", "-max_len=250000", str(folder)]
    atheris.Setup([sys.argv[0], *given], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
