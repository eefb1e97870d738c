// Package report writes the results of memlane-fleet about all captures of a fleet: text, Markdown, a page, JSON,
// tables and a profile. The page is bundled from folder page and from parts of render/web/page:
//
//	go generate ./report
package report

//go:generate go -C ../../.. tool esbuild cmd/memlane-fleet/report/page/fleet.js --bundle --format=iife --target=es2022 --minify --charset=utf8 --legal-comments=eof --log-level=warning --outfile=cmd/memlane-fleet/report/assets/fleet.js
//go:generate go -C ../../.. tool esbuild cmd/memlane-fleet/report/page/trend.js --bundle --format=iife --target=es2022 --minify --charset=utf8 --legal-comments=eof --log-level=warning --outfile=cmd/memlane-fleet/report/assets/trend.js
//go:generate go -C ../../.. tool esbuild cmd/memlane-fleet/report/page/fleet.css --bundle --minify --legal-comments=eof --log-level=warning --outfile=cmd/memlane-fleet/report/assets/fleet.css

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/purpose"
)

// File is one of the results.
type File struct {
	Name  string
	Write func(w io.Writer, d *Data) error
}

// Files are the results. Equal fleets give equal bytes.
var Files = []File{
	{"report.txt", writeText},
	{"report.md", writeMarkdown},
	{"report.html", writePage},
	{"fleet.json", writeJSON},
	{"ranks.parquet", writeRanks},
	{"sites.parquet", writeSites},
	{"findings.parquet", writeFindings},
	{"fleet.pb.gz", writeProfile},
	{"metrics.txt", writeMetrics},
	{Records, writeRecords},
}

// Records is the name of the file with the records themselves, for comparisons with other runs.
const Records = "records.zst"

func writeRecords(w io.Writer, d *Data) error {
	out, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	_, err = out.Write(d.Fleet.AppendBinary(nil))
	return cmp.Or(err, out.Close())
}

// Data contains the figures of all results. Of computes them once.
type Data struct {
	Fleet *fleet.Fleet
	Pages func(capture string) string // relative address of the page of a capture, "" if there is none

	Read, Refused, Missing []*fleet.Record      // in order of their names
	Damaged                []*fleet.Record      // of those read
	Ranks                  []string             // that were read, by number
	Absent                 []string             // ranks without a capture, between the others
	Groups                 []fleet.OutlierGroup // of ranks that differ, by cause
	Outliers               []fleet.Outlier      // the same, by rank
	OtherCode              []fleet.OtherCode
	Failures               []fleet.FailureGroup
	Findings               []Finding // worst first
	Kinds                  []fleet.Kind
	Sites                  []fleet.SiteSum
	Losses                 []Loss // worst first
}

// Finding is a finding with the ranks that have it.
type Finding struct {
	*fleet.Group
	Ranks []string
}

// Loss is the sum of the losses of captures for one reason.
type Loss struct {
	fleet.Loss
	Captures int
}

// Of returns the data of a fleet. by finds the ranks of captures that were not read. roles is nil if no table is
// given, pages if captures have no pages.
func Of(f *fleet.Fleet, by finding.RankNames, roles *fleet.Roles, pages func(capture string) string) *Data {
	if pages == nil {
		pages = func(string) string { return "" }
	}
	d := &Data{Fleet: f, Pages: pages, Ranks: f.Ranks(), Absent: f.Gaps(by), Groups: f.Outliers(roles),
		OtherCode: f.OtherCode(), Failures: f.Failures(), Kinds: f.Kinds(), Sites: f.Sites()}
	for i := range d.Groups {
		d.Outliers = append(d.Outliers, d.Groups[i].Outliers...)
	}
	slices.SortStableFunc(d.Outliers, func(a, b fleet.Outlier) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), fleet.CompareRanks(a.Record.RankOf(a.Memory), b.Record.RankOf(b.Memory)))
	})
	losses := map[string]*Loss{}
	for r := range f.Records() {
		states := []*[]*fleet.Record{fleet.Read: &d.Read, fleet.Refused: &d.Refused, fleet.Missing: &d.Missing}
		*states[r.State] = append(*states[r.State], r)
		if r.State != fleet.Read {
			continue
		}
		if r.Damaged() {
			d.Damaged = append(d.Damaged, r)
		}
		for _, l := range r.Losses {
			sum := losses[l.Reason]
			if sum == nil {
				sum = &Loss{Loss: fleet.Loss{Reason: l.Reason}}
				losses[l.Reason] = sum
			}
			sum.Captures++
			sum.Count = units.AddSat(sum.Count, l.Count)
			sum.Bytes = units.AddSat(sum.Bytes, l.Bytes)
		}
	}
	for _, l := range losses {
		d.Losses = append(d.Losses, *l)
	}
	slices.SortFunc(d.Losses, func(a, b Loss) int {
		x, y := lossSeverity(a.Reason), lossSeverity(b.Reason)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Captures, a.Captures), cmp.Compare(a.Reason, b.Reason))
	})
	for _, g := range f.Findings() {
		d.Findings = append(d.Findings, Finding{g, ranksOf(g)})
	}
	return d
}

func ranksOf(g *fleet.Group) []string {
	var ranks []string
	for _, w := range g.Found {
		ranks = append(ranks, w.Record.RankOf(w.Memory))
	}
	slices.SortFunc(ranks, fleet.CompareRanks)
	return slices.Compact(ranks)
}

// Headline returns the counts of captures and ranks: "64 captures: 63 read, 2 of them damaged; 1 missing; 63 ranks".
func (d *Data) Headline() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s read", units.Plural(d.Fleet.Len(), "capture"), units.Count(int64(len(d.Read))))
	if n := len(d.Damaged); n > 0 {
		fmt.Fprintf(&b, ", %s of them damaged", units.Count(int64(n)))
	}
	if n := len(d.Refused); n > 0 {
		fmt.Fprintf(&b, "; %s refused", units.Count(int64(n)))
	}
	if n := len(d.Missing); n > 0 {
		fmt.Fprintf(&b, "; %s missing", units.Count(int64(n)))
	}
	fmt.Fprintf(&b, "; %s", units.Plural(len(d.Ranks), "rank"))
	return b.String()
}

// Sentence describes a finding and its ranks.
func (d *Data) Sentence(f *Finding) string {
	text := f.What() + ": " + answer.OnRanks(d.Ranks, f.Ranks, f.Amount.Bytes, []float64{f.BytesPerStep})
	if len(f.HeldBy) > 0 {
		text += "; held by " + f.HeldBy[0]
	}
	return text
}

// What returns the rule of a finding and its place.
func (f *Finding) What() string { return f.Rule + " " + cmp.Or(f.Place, "of a whole device") }

// Grave returns the findings above Info severity, which come first.
func (d *Data) Grave() []Finding {
	n := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Severity == finding.Info.String() })
	if n < 0 {
		return d.Findings
	}
	return d.Findings[:n]
}

// String describes a loss and returns how many captures have it.
func (l *Loss) String() string {
	text := lossDoc(l.Loss)
	text += fmt.Sprintf(": %s, %s", units.Plural(l.Captures, "capture"), units.Plural(l.Count, "case"))
	if l.Bytes > 0 {
		text += ", " + units.Bytes(l.Bytes)
	}
	return text
}

// Trouble returns why a capture was not read, or how it is damaged.
func Trouble(r *fleet.Record) string {
	if r.State != fleet.Read {
		return cmp.Or(r.Reason, "unknown reason")
	}
	var all []string
	for _, l := range r.Losses {
		if lossSeverity(l.Reason) == loss.Damage {
			all = append(all, lossDoc(l))
		}
	}
	return strings.Join(all, "; ")
}

func lossSeverity(reason string) loss.Class {
	r, ok := loss.Parse(reason)
	if !ok {
		return loss.Remark
	}
	return r.Class()
}

func lossDoc(l fleet.Loss) string {
	r, ok := loss.Parse(l.Reason)
	if !ok {
		return l.Reason
	}
	return l.Reason + ", " + r.Doc()
}

// MadeOf is the share of a place in the peaks of a kind of memory, or the share of memory from before the windows.
type MadeOf struct {
	fleet.PlaceSum
	Share float64
}

// MakeUp returns the largest parts of the peaks of a kind, and how many rows it left out.
func MakeUp(k *fleet.Kind, most int) (rows []MadeOf, more int) {
	places := k.Places
	if k.Base > 0 {
		base := fleet.PlaceSum{Place: purpose.Words(lifetime.FromBase.String()), Bytes: k.Base} // in an unknown number of memories
		at := slices.IndexFunc(places, func(p fleet.PlaceSum) bool { return p.Bytes < k.Base })
		if at < 0 {
			at = len(places)
		}
		places = slices.Insert(slices.Clone(places), at, base)
	}
	for _, p := range places[:min(most, len(places))] {
		rows = append(rows, MadeOf{p, float64(p.Bytes) / float64(max(1, k.Total))})
	}
	return rows, len(places) - len(rows)
}
