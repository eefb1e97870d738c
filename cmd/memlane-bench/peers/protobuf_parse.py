# Parses an XSpace by the protobuf package alone. The messages are those of xplane.proto that a profile of a host has.
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT64, UINT64, DOUBLE, STRING, BYTES, MESSAGE = 3, 4, 1, 9, 12, 11
MESSAGES = {
    "XSpace": [("planes", 1, "XPlane*"), ("errors", 2, "*"), ("warnings", 3, "*"), ("hostnames", 4, "*")],
    "XPlane": [("id", 1, INT64), ("name", 2, STRING), ("lines", 3, "XLine*"), ("event_metadata", 4, "EventEntry*"),
               ("stat_metadata", 5, "StatEntry*"), ("stats", 6, "XStat*")],
    "XLine": [("id", 1, INT64), ("name", 2, STRING), ("timestamp_ns", 3, INT64), ("events", 4, "XEvent*"), ("duration_ps", 9, INT64),
              ("display_id", 10, INT64), ("display_name", 11, STRING)],
    "XEvent": [("metadata_id", 1, INT64), ("offset_ps", 2, INT64), ("duration_ps", 3, INT64), ("stats", 4, "XStat*")],
    "XStat": [("metadata_id", 1, INT64), ("double_value", 2, DOUBLE), ("uint64_value", 3, UINT64), ("int64_value", 4, INT64),
              ("str_value", 5, STRING), ("bytes_value", 6, BYTES), ("ref_value", 7, UINT64)],
    "EventEntry": [("key", 1, INT64), ("value", 2, "Metadata")],
    "StatEntry": [("key", 1, INT64), ("value", 2, "Metadata")],
    "Metadata": [("id", 1, INT64), ("name", 2, STRING)],
}

file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="bench", syntax="proto3")
for name, fields in MESSAGES.items():
    message = file.message_type.add(name=name)
    for field, number, kind in fields:
        repeated = isinstance(kind, str) and kind.endswith("*")
        of = kind.rstrip("*") if isinstance(kind, str) else ""
        f = message.field.add(name=field, number=number, label=3 if repeated else 1, type=MESSAGE if of else STRING if repeated else kind)
        if of:
            f.type_name = ".bench." + of
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
space = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.XSpace"))()
with open(sys.argv[1], "rb") as f:
    space.ParseFromString(f.read())
