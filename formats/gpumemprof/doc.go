// Package gpumemprof reads the JSON of gpumemprof (gpu-memory-profiler) and its successor stormlog: results of calls
// (ProfileResult.to_dict) and telemetry events (TelemetryEventV2 to V4).
//
// Its place in the pipeline: formats.Open recognizes a file with [Sniff]; [Read] decodes one record after the other
// and passes calls and samples to a build.Builder. A file is a list of records, or an object with such lists under
// "results", "events" or "input"; its other members are skipped. The keys of a record determine its type.
//
// Mapping to the model: every device is a space with known usage only. A result is a call of a function. Its three
// snapshots are totals of the device: before the call, at its peak (dated at the end of the call, as the producer dates
// it) and after the call. A telemetry event is a sample and a total. The name of a function is a stack of one frame.
//
// The reader refuses files that are neither a list nor an object with such a list. Records without their essential
// fields are counted and skipped. A truncated or damaged file is read up to the last whole record.
package gpumemprof
