// Memlane-fleet sums up the captures of thousands of ranks: which of them stand out,
// which leak is on how many, and who holds the memory of all.
//
//	memlane-fleet run    captures in, results out, on this machine
//	memlane-fleet map    captures in, a record for each out: what an engine runs on its workers
//	memlane-fleet merge  records in, results out: what it runs at the end
//
// Its place in the pipeline: formats reads a capture, lifetime/leak judges it, and
// lifetime/fleet keeps some ten kilobytes of it. This program finds the captures
// (names.go), on disks and in object stores (store.go), reads as many at a time as the
// memory allows (map.go), keeps what it made of them in a cache (cache.go), and hands the
// set to the renderers (results.go). It is a module of its own because the clients of
// object stores need more other modules than all of memlane.
//
// It has no engine of its own: see folder engines for Spark, Ray, Slurm and Kubernetes,
// and docs/manual/fleet.md.
package main
