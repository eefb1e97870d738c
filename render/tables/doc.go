// Package tables writes captures as tables, for spreadsheets (CSV) and for
// databases (Parquet, for DuckDB, pandas and Spark). The tables and their columns are the
// same in both; a file holds one table.
//
// Its place in the pipeline: a reader made a [lifetime.Capture]; [WriteCSV] and
// [WriteParquet] turn it into rows, one at a time.
//
// # Tables
//
// Bytes and times are integers; times count the unit of their row's space. A
// number of a site or stack tells it from the others of the capture; 0 is none, or
// not known. Text that is not known is empty.
//
//   - buffers: one row per buffer, by space and begin_at. size is what it occupied,
//     requested what the program asked for. function, file and line are those of
//     the innermost call of the program itself, or function is the operation
//     where there is no stack. live: alive at the end; then end_at is that of the
//     window. begin_unseen: older than the window, or its allocation was lost, so
//     that no allocation is counted. edges says what of it was not seen or
//     inferred, as in native text.
//   - sites: one row per space and site that has buffers there, with their sums:
//     allocated in the window, freed in it, alive at the peak of occupied bytes and
//     alive at the end.
//   - stacks: one row per frame of a stack; depth 0 is the innermost call.
//   - usage: for each space and measure (occupied, requested, reserved) one row
//     for each instant at which the level changed or was told. Levels hold what was alive
//     through the whole window without being seen, and what is set aside beside
//     the heap: the maximum is the peak. Where nothing but the usage is known,
//     occupied is what the producer told.
//
// Those of a fleet ([WriteFleetParquet]) are in the order of the names of its captures,
// and a row group has whole captures:
//
//   - ranks: one row per memory of a capture, and one for each capture without any: state
//     and reason say why it was not read. usage is the most that was occupied in each of
//     64 equal parts of the window.
//   - sites: one row per memory and site, with its sums as above; leaked is what findings
//     blame it for.
//   - findings: one row per finding of a memory.
//
// # Safety
//
// Text from captures is cleaned: what is not UTF-8 or does not print becomes
// U+FFFD. A CSV cell of text that a spreadsheet would take for a formula begins
// with an apostrophe.
package tables
