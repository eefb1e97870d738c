// Package gpumemprof reads what gpumemprof (gpu-memory-profiler) and its
// successor stormlog write as JSON: results of calls (ProfileResult.to_dict)
// and telemetry events (TelemetryEventV2 to V4).
//
// Its place in the pipeline: formats.Open finds a file by [Sniff]; [Read]
// decodes one record after the other and hands calls and samples to a
// build.Builder. A file is a list of records, or an object with such lists
// under "results", "events" or "input"; its other members are skipped. What a
// record is, its own keys tell.
//
// What becomes of it: every device is a space of which only the usage is known.
// A result is a call of a function, and the three snapshots in it are totals of
// the device: before, at its peak (dated as the producer does: at the call's
// end) and after. A telemetry event is a sample and a total. The name of a
// function is a stack of one frame.
//
// Refused: what is neither a list nor an object with such a list. Records that
// lack what they are about are counted and skipped; what ends early or is
// damaged is used as far as it goes.
package gpumemprof
