"""The name of an event is kept whatever version of opentelemetry-proto is installed."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.logs.v1 import logs_pb2

from spanscore.otlp import signal

RECORD = logs_pb2.LogRecord.DESCRIPTOR.full_name


def older():
    """logs.proto as it was before `event_name`."""
    file = FileDescriptorProto.FromString(logs_pb2.DESCRIPTOR.serialized_pb)
    (record,) = (x for x in file.message_type if x.name == "LogRecord")
    kept = [x for x in record.field if x.name != "event_name"]
    del record.field[:]
    record.field.extend(kept)
    return file.SerializeToString()


class Module:
    """An installed module of an older version."""

    LogRecord = logs_pb2.LogRecord

    class DESCRIPTOR:
        serialized_pb = older()


def test_the_installed_messages_are_used_where_they_have_the_field():
    has_field = "event_name" in logs_pb2.LogRecord.DESCRIPTOR.fields_by_name

    assert (signal.LogRecord is logs_pb2.LogRecord) is has_field


def test_an_older_version_gets_the_field(monkeypatch):
    monkeypatch.setattr(signal, "logs_pb2", Module)
    record = GetMessageClass(signal.with_event_name().FindMessageTypeByName(RECORD))

    sent = signal.LogRecord(
        event_name="gen_ai.evaluation.result", severity_text="INFO"
    ).SerializeToString()
    assert record.FromString(sent).event_name == "gen_ai.evaluation.result"


def test_a_version_that_has_the_field_gets_it_once():
    record = signal.with_event_name().FindMessageTypeByName(RECORD)

    assert [x.number for x in record.fields if x.name == "event_name"] == [12]
