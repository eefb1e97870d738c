package main

import (
	"io"

	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/report"
	"github.com/memlane/memlane/render/tables"
	"github.com/memlane/memlane/render/web"
)

// results are the files that a fleet becomes.
var results = []struct {
	name  string
	write func(w io.Writer, d *report.FleetData) error
}{
	{"report.txt", report.WriteFleetText},
	{"report.md", report.WriteFleetMarkdown},
	{"report.html", web.WriteFleet},
	{"fleet.json", report.WriteFleetJSON},
	{"ranks.parquet", table(tables.FleetRanks)},
	{"sites.parquet", table(tables.FleetSites)},
	{"findings.parquet", table(tables.FleetFindings)},
	{"fleet.pb.gz", func(w io.Writer, d *report.FleetData) error { return pprof.WriteFleet(w, d.Fleet, d.Sites) }},
}

func table(name string) func(io.Writer, *report.FleetData) error {
	return func(w io.Writer, d *report.FleetData) error { return tables.WriteFleetParquet(w, d.Fleet, name) }
}
