package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/render/text"
)

// gauges are the figures of a memory that writeMetrics writes.
var gauges = [...]struct {
	name, help string
	of         func(*fleet.Memory) int64
}{
	{"peak_bytes", "Highest memory in use.", func(m *fleet.Memory) int64 { return m.Peak }},
	{"reserved_peak_bytes", "Highest reserved memory.", func(m *fleet.Memory) int64 { return m.ReservedPeak }},
	{"growth_bytes", "Growth in the recording.", func(m *fleet.Memory) int64 { return m.Growth }},
	{"leaked_bytes", "Memory of leaks.", func(m *fleet.Memory) int64 { return m.Leaked }},
}

// writeMetrics writes the figures as OpenMetrics text. (https://prometheus.io/docs/specs/om/open_metrics_spec)
func writeMetrics(w io.Writer, d *Data) error {
	out := bufio.NewWriter(w)
	head := func(name, unit, help string) {
		fmt.Fprintf(out, "# TYPE memlane_fleet_%s gauge\n", name)
		if unit != "" {
			fmt.Fprintf(out, "# UNIT memlane_fleet_%s %s\n", name, unit)
		}
		fmt.Fprintf(out, "# HELP memlane_fleet_%s %s\n", name, help)
	}
	head("captures", "", "Captures by state.")
	for _, of := range []struct {
		state string
		n     int
	}{{"read", len(d.Read)}, {"damaged", len(d.Damaged)}, {"refused", len(d.Refused)}, {"missing", len(d.Missing)}} {
		fmt.Fprintf(out, "memlane_fleet_captures{state=\"%s\"} %d\n", of.state, of.n)
	}
	for _, g := range gauges {
		head(g.name, "bytes", g.help)
		for _, r := range d.Read {
			seen := map[string]bool{} // a set of labels may occur once
			for i := range r.Memories {
				m := &r.Memories[i]
				if id := m.Space().ID(); !seen[id] {
					seen[id] = true
					fmt.Fprintf(out, "memlane_fleet_%s{capture=%s,rank=%s,memory=%s} %d\n", g.name,
						label(r.Name), label(m.Rank), label(id), g.of(m))
				}
			}
		}
	}
	head("outlier", "", "Memory IDs that differ from the others, by measure.")
	for i := range d.Outliers {
		o := &d.Outliers[i]
		fmt.Fprintf(out, "memlane_fleet_outlier{capture=%s,rank=%s,memory=%s,measure=%s} 1\n",
			label(o.Record.Name), label(o.Record.Memories[o.Memory].Rank), label(o.Space.ID()), label(o.Measure()))
	}
	fmt.Fprint(out, "# EOF\n")
	return out.Flush()
}

func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text.Printable(s)) + `"`
}
