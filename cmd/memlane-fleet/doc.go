// Memlane-fleet summarizes the captures of thousands of ranks: which ranks differ, how many
// ranks have a leak, and which code holds the memory of all ranks.
//
//	memlane-fleet run      reads captures and writes results, on this machine
//	memlane-fleet map      reads captures and writes a record of each: for the workers of an engine
//	memlane-fleet merge    reads records and writes results: the last step on an engine
//	memlane-fleet parts    divides captures into tasks of equal size: for engines
//	memlane-fleet combine  reads records and writes them in less space: for engines
//	memlane-fleet compare  reads the results of two runs and prints what differs
//	memlane-fleet trend    reads the results of many runs and prints what changed when
//
// Its place in the pipeline: formats reads a capture, lifetime/finding analyses it, and package
// fleet reduces it to a record of about ten kilobytes. This program finds the captures
// (names.go) on disks and in object stores (store.go), reads as many at a time as fit into
// memory (map.go), in processes that a capture may end (reader.go), caches their records (cache.go), divides
// work for engines (parts.go), writes the results of all records (merge.go, package report) and compares
// those of several runs, which it finds by their folders (runs.go). It is a
// separate module, because the clients of object stores need more dependencies than the rest of memlane.
//
// Folder engines has job files for Spark, Ray, Slurm and Kubernetes; see docs/manual/fleet.md.
package main
