package oomtext

import (
	"bytes"
	"strconv"
	"strings"
)

// unknownRank is the rank of a writer whose prefix does not name one.
const unknownRank = -1

// maxWriters limits the writers that are told apart: each keeps the text that it has begun.
const maxWriters = 4096

// writer is a process that writes lines with a prefix of its own, or all lines without one.
type writer struct {
	key  string // "rank3"
	name string // of the process in the model: "rank 3", "pid 77"; "" = not known
	rank int64

	relays bool // it may print what others wrote: its prefix names no rank, host or pod

	prefix []byte // that names it

	open *message // the text that it has begun
	last *printed // the last failure that it printed

	failed map[string]int64 // failures that it printed, by device

	series map[string]*series // by the words of their lines; nil for lines without the memory in use
}

// knows reports whether the failures that a state counts were printed before it: as many of its device, or one right before.
func (w *writer) knows(f *printed) bool {
	printed := int64(0)
	for device, n := range w.failed {
		if onDevice(device, f.device) {
			printed += n
		}
	}
	return f.counted <= printed || w.last != nil && !w.last.state && onDevice(w.last.device, f.device) && f.Line-w.last.Line < nearby
}

// escapes are colours and moves of the cursor.
var escapes = lazily(`\x1b\[[0-9;?]*[A-Za-z]`)

// plain returns a line without escape sequences.
func plain(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	return escapes().ReplaceAll(line, nil)
}

// A prefix of a line. Those with a group name the writer.
type prefix struct {
	first string // bytes with one of which it begins
	re    pattern
	what  string // before the number of the writer: "rank", "pid"; "" = the prefix names no writer
}

// in returns the submatches of the prefix that a line begins with; nil if it does not.
func (p *prefix) in(line []byte) []int {
	if strings.IndexByte(p.first, line[0]) < 0 {
		return nil
	}
	return p.re().FindSubmatchIndex(line)
}

// prefixes of launchers and loggers. A line may have several.
var prefixes = []prefix{
	{"[", lazily(`^\[rank([0-9]+)\]: ?`), "rank"},                                      // PyTorch 2.2 and later
	{"[", lazily(`^\[[A-Za-z_]\w*?([0-9]+)\]: ?`), "rank"},                             // torchrun --tee: [default3]:
	{"(", lazily(`^\([A-Za-z_]\w* rank=([0-9]+) pid=[0-9]+\) `), "rank"},               // vLLM
	{"(", lazily(`^\([A-Za-z]+_TP([0-9]+)(?:_EP[0-9]+)? pid=[0-9]+\) `), "rank"},       // vLLM: (Worker_TP1 pid=77)
	{"[", lazily(`^\[[0-9]+,([0-9]+)\]<std(?:out|err)>: ?`), "rank"},                   // mpirun --tag-output
	{"[", lazily(`^\[[0-9/:-]+\] \[TRT-LLM\] \[RANK ([0-9]+)\] \[[A-Z]\] `), "rank"},   // TensorRT-LLM
	{" >#", lazily(`^ ?[>#]+ ?`), ""},                                                  // quoted
	{"(", lazily(`^\([A-Za-z_][\w.]* pid=([0-9]+)(?:, ip=\S+)?\) `), "pid"},            // Ray, vLLM
	{"012", lazily(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+ `), ""},                            // GitHub Actions, Kubernetes
	{"012", lazily(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+: [IWEF] \S+:[0-9]+\] `), ""},  // TensorFlow 2
	{"IWEF", lazily(`^[IWEF][0-9]{4} [0-9:.]+ +[0-9]+ \S+:[0-9]+\] `), ""},             // absl
	{"IWEF", lazily(`^[IWEF] \S+:[0-9]+\] `), ""},                                      // TensorFlow 1
	{"IWED", lazily(`^(?:INFO|WARNING|ERROR|DEBUG) [0-9-]+ [0-9:]+ \[[^\]]+\] ?`), ""}, // vLLM
}

// srun is the prefix of "srun -l": the number of the task. Other lines may begin like that, so detectSrun decides.
var srun = prefix{"0123456789", lazily(`^ *([0-9]{1,5}): `), "rank"}

// detectSrun reports whether most lines of head begin with the number of a task, of which there are few.
func detectSrun(head []byte) bool {
	lines, numbered, tasks := 0, 0, map[string]bool{}
	for line := range bytes.Lines(head) {
		if lines++; lines > 2000 {
			break
		}
		if m := srun.re().FindSubmatch(line); m != nil {
			numbered++
			tasks[string(m[1])] = true
		}
	}
	return 2*numbered > lines && 2*len(tasks) <= numbered+1
}

// stripped returns a line without its prefixes, and the prefix that names the writer.
func (r *reader) stripped(line []byte) (rest, named []byte, what, number string) {
	const most = 4 // prefixes of a line
	if text, rank := record(line); text != nil {
		if line = text; rank != "" {
			what, number = "rank", rank
		}
	}
	for range most {
		if len(line) == 0 {
			break
		}
		n := 0
		for i := 0; i < len(r.prefixes) && n == 0; i++ {
			p := &r.prefixes[i]
			m := p.in(line)
			if m == nil {
				continue
			}
			if n = m[1]; p.what != "" {
				named = bytes.TrimRight(line[:n], " ")
				what, number = p.what, string(line[m[2]:m[3]])
			}
		}
		for i := 0; i < len(r.shapes) && n == 0; i++ {
			if n = r.shapes[i].match(line); n > 0 && number == "" {
				named, what, number = writerIn(line[:n])
			}
		}
		if n == 0 {
			break
		}
		line = line[n:]
	}
	return line, named, what, number
}

// writerOf returns the writer of a line and the line without its prefixes.
func (r *reader) writerOf(line []byte) (*writer, []byte) {
	rest, named, what, number := r.stripped(line)
	key := what + number // there are several forms of a prefix
	w := r.writers[key]
	if w == nil && len(r.writers) >= maxWriters {
		key, what, named = "", "", nil
		w = r.writers[key]
	}
	if w == nil {
		w = &writer{key: key, rank: unknownRank, prefix: bytes.Clone(named), name: strings.TrimSpace(what + " " + number),
			failed: map[string]int64{}, series: map[string]*series{}}
		if n, err := strconv.ParseInt(number, 10, 32); what == "rank" && err == nil {
			w.rank = n
		}
		w.relays = w.rank == unknownRank && (what != "" || number == "")
		r.writers[key] = w
	}
	return w, rest
}
