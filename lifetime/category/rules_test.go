package category_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/purpose"
)

var (
	leftOut = flag.String("left-out", "", "folders, separated by commas, of captures that no rule was made from, for TestRules")
	without = flag.String("without", "", "rules, separated by commas, that TestRules switches off before all others")
	each    = flag.Bool("programs", false, "TestRules prints a line for each program")
)

// known is a capture whose buffers have a truth.
type known struct {
	name, program string
	c             *lifetime.Capture
	space         *lifetime.Space
	at            []int // buffers that are alive at the peak
	truth         []row // of these
	fired         map[string]bool
}

var (
	reading sync.Mutex
	read    = map[string][]*known{} // by folder
)

// readKnown reads the captures of a folder, once.
func readKnown(tb testing.TB, folder string) []*known {
	tb.Helper()
	reading.Lock()
	defer reading.Unlock()
	if all := read[folder]; all != nil {
		return all
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.pickle.zst"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d captures in %s: %v", len(files), folder, err)
	}
	all := make([]*known, len(files))
	inParallel(len(files), func(n int) {
		k, err := readOne(files[n])
		if err != nil {
			tb.Errorf("%s: %v", files[n], err)
			return
		}
		all[n] = k
	})
	if tb.Failed() {
		tb.FailNow()
	}
	read[folder] = all
	return all
}

func inParallel(n int, do func(i int)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

func readOne(file string) (*known, error) {
	c, err := open(file, formats.Input{})
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(strings.TrimSuffix(file, ".pickle.zst") + ".truth.json.zst")
	if err != nil {
		return nil, err
	}
	plain, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if data, err = plain.DecodeAll(data, nil); err != nil {
		return nil, err
	}
	var all truth
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if err := all.read(); err != nil {
		return nil, err
	}
	k := &known{name: strings.TrimSuffix(filepath.Base(file), ".pickle.zst"), program: all.Program, c: c}
	k.space = c.Spaces[slices.IndexFunc(c.Spaces, func(s *lifetime.Space) bool { return s.Device == "cuda:0" })]
	seen := slices.DeleteFunc(slices.Clone(all.Rows), func(r row) bool { return r.alloc == nil })
	slices.SortFunc(seen, func(x, y row) int { return cmp.Compare(*x.alloc, *y.alloc) })
	old := map[uint64]row{}
	for _, r := range all.Rows {
		if r.alloc == nil {
			old[r.addr] = r
		}
	}
	next := 0
	for i, b := range k.space.Buffers {
		var r row
		if b.Edge&lifetime.BeginUnseen != 0 {
			r = old[b.Addr]
		} else if next < len(seen) {
			r, next = seen[next], next+1
		}
		if r.category != "" && r.atPeak(all.PeakEvent) {
			k.at, k.truth = append(k.at, i), append(k.truth, r)
		}
	}
	return k, nil
}

// judge returns the answers about the buffers at the peak under the rules that are on.
func (k *known) judge() []purpose.Purpose {
	tables := k.c.Tables
	tables.Purposes = make([]purpose.Purpose, 1)
	s := *k.space
	s.Purposes = nil
	category.NewJudge(&tables).Add(&s)
	all := make([]purpose.Purpose, len(k.at))
	for n, i := range k.at {
		all[n] = tables.Purpose(s.PurposeOf(i))
	}
	if k.fired == nil {
		k.fired = map[string]bool{}
		for i := range s.Buffers {
			k.fired[tables.Purpose(s.PurposeOf(i)).Rule] = true
		}
	}
	return all
}

// mistakes names what is not right for at least a hundredth of the bytes at the peak.
func (k *known) mistakes() string {
	all, bytes := 0.0, map[string]float64{}
	for n, p := range k.judge() {
		r := &k.truth[n]
		all += float64(r.size)
		if p.Category.String() == r.category {
			continue
		}
		age := ""
		if r.alloc == nil {
			age = " older"
		}
		bytes[fmt.Sprintf("%s%s -> %s (%s)", r.category, age, p.Category, p.Rule)] += float64(r.size)
	}
	var text []string
	for _, what := range slices.Sorted(maps.Keys(bytes)) {
		if share := 100 * bytes[what] / all; share >= 1 {
			text = append(text, fmt.Sprintf("%s %.1f", what, share))
		}
	}
	return strings.Join(text, ", ")
}

// shares are the shares of the bytes at the peak with a right, a wrong and no answer.
type shares struct {
	right, wrong, unknown float64
	sure, sureWrong       float64 // said with a confidence of at least 0.9, and wrong
}

func (s shares) plus(o shares, times float64) shares {
	return shares{
		s.right + times*o.right, s.wrong + times*o.wrong, s.unknown + times*o.unknown, s.sure + times*o.sure, s.sureWrong + times*o.sureWrong,
	}
}

// worth is what an answer is worth to a reader: a wrong one costs three right ones.
func (s shares) worth() float64 { return s.right - 3*s.wrong }

func (k *known) shares(answers []purpose.Purpose) (s shares) {
	all := 0.0
	for n, p := range answers {
		size := float64(k.truth[n].size)
		all += size
		switch {
		case p.Category == purpose.UnknownCategory:
			s.unknown += size
		case p.Category.String() == k.truth[n].category:
			s.right += size
		default:
			s.wrong += size
		}
		if p.Category != purpose.UnknownCategory && p.Confidence >= 0.9 {
			s.sure += size
			if p.Category.String() != k.truth[n].category {
				s.sureWrong += size
			}
		}
	}
	return shares{}.plus(s, 100/max(all, 1))
}

// set is captures of several programs, of which each counts once.
type set struct {
	name string
	all  []*known
	base map[*known]shares
}

// mean returns the mean over programs of the means over their captures.
func (s *set) mean(of map[*known]shares) (mean shares) {
	programs := map[string][]shares{}
	for _, k := range s.all {
		programs[k.program] = append(programs[k.program], of[k])
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		for _, one := range programs[name] {
			mean = mean.plus(one, 1/float64(len(programs[name]))/float64(len(programs)))
		}
	}
	return mean
}

// judge judges the captures, or only those in which a rule was the last to decide.
func (s *set) judge(rule string) map[*known]shares {
	of := maps.Clone(s.base)
	if of == nil {
		of = map[*known]shares{}
	}
	asked := slices.DeleteFunc(slices.Clone(s.all), func(k *known) bool { return rule != "" && !k.fired[rule] })
	got := make([]shares, len(asked))
	inParallel(len(asked), func(n int) { got[n] = asked[n].shares(asked[n].judge()) })
	for n, k := range asked {
		of[k] = got[n]
	}
	return of
}

// TestRules switches each rule off in turn, and prints what it adds and breaks: shares of the bytes at the peak in percent, means over
// programs, of the captures that rules were made from and of those that are left out.
func TestRules(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("it prints a table: -v")
	}
	sets := []*set{{name: "own", all: readKnown(t, meaning)}}
	for _, folder := range strings.FieldsFunc(*leftOut, func(r rune) bool { return r == ',' }) {
		sets = append(sets, &set{name: filepath.Base(folder), all: readKnown(t, folder)})
	}
	off := strings.FieldsFunc(*without, func(r rune) bool { return r == ',' })
	for _, name := range off {
		defer category.Off(name)()
	}
	for _, s := range sets {
		s.base = s.judge("")
		m := s.mean(s.base)
		t.Logf("%s: %d captures: right %.2f wrong %.2f unknown %.2f; said with 0.9 or more %.2f, of these wrong %.3f",
			s.name, len(s.all), m.right, m.wrong, m.unknown, m.sure, m.sureWrong)
		for _, k := range s.all {
			if o := s.base[k]; *each {
				t.Logf("  %s %-20s right %6.2f wrong %6.2f unknown %6.2f %s", k.name, k.program, o.right, o.wrong, o.unknown, k.mistakes())
			}
		}
	}
	for _, r := range category.Rules {
		if slices.Contains(off, r.Name) {
			continue
		}
		var line strings.Builder
		on := category.Off(r.Name)
		for _, s := range sets {
			got := s.judge(r.Name)
			gain := s.mean(s.base).plus(s.mean(got), -1)
			line.WriteString(gain.String(s.name))
			better, worse := s.programs(got)
			line.WriteString(better + worse)
		}
		on()
		t.Logf("%-24s%s", r.Name, line.String())
	}
}

func (s shares) String(set string) string {
	return fmt.Sprintf(" | %s: right %+6.2f wrong %+6.2f worth %+6.2f", set, s.right, s.wrong, s.worth())
}

// programs names the captures to which a rule adds most, and that it breaks, beside their worth.
func (s *set) programs(off map[*known]shares) (adds, breaks string) {
	for _, k := range s.all {
		switch gain := s.base[k].plus(off[k], -1); {
		case gain.worth() >= 0.5:
			adds += fmt.Sprintf(" %s%+.0f", k.name, gain.worth())
		case gain.worth() <= -0.5:
			breaks += fmt.Sprintf(" %s%+.0f", k.name, gain.worth())
		}
	}
	return adds, breaks
}
