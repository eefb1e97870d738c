// Package tables writes captures as tables, for spreadsheets (CSV) and, with package parquet, for databases (Parquet,
// for DuckDB, pandas and Spark). Tables and columns are the same in both formats; a file contains one table.
//
// Its place in the pipeline: a reader made a [lifetime.Capture]; [WriteCSV] and [WriteParquet] turn it into rows, one
// at a time.
//
// # Tables
//
// Bytes and times are integers; times have the unit of their row's space. The number of a site or stack is unique in
// its capture; 0 means none or not known. Unknown text is empty.
//
//   - buffers: one row per buffer, by space and begin_at. size is the occupied size, requested the requested one.
//     function, file and line are those of the innermost call of the program itself; without a stack, function is the
//     operation. live: alive at the end; end_at is then the end of the window. begin_unseen: older than the window, or
//     its allocation was lost, so that no allocation is counted. edges lists what was not seen or was inferred, as in
//     native text.
//   - sites: one row per space and site with buffers, with their sums: allocated in the window, freed in it, alive at
//     the peak of occupied bytes and alive at the end.
//   - stacks: one row per frame of a stack; depth 0 is the innermost call.
//   - usage: for each space and measure (occupied, requested, reserved) one row for each instant at which the level
//     changed or was reported. Levels include bytes that were alive through the whole window and never seen as
//     buffers, and bytes outside the heap: the maximum is the peak. If only the usage is known, occupied is the
//     producer's number.
//
// Fleet tables (WriteGroups of package parquet) are in the order of the names of their captures, and a row group has
// whole captures:
//
//   - ranks: one row per memory of a capture, and one for each capture without any: state and reason say why it was
//     not read. usage is the maximum of occupied bytes in each of 64 equal parts of the window.
//   - sites: one row per memory and site, with its sums as above; leaked is the number of bytes that findings
//     attribute to it.
//   - findings: one row per finding of a memory.
//
// # Safety
//
// Text from captures is cleaned: invalid UTF-8 and unprintable characters become U+FFFD. If a spreadsheet would
// interpret the text of a CSV cell as a formula, the cell begins with an apostrophe.
package tables
