package category

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Overrides are categories that a person gives to buffers.
type Overrides struct{ lines []override }

// override is a line of the file. A buffer has the category if it meets all conditions.
type override struct {
	at       string // FILE:LINE
	name     string
	category purpose.Category // UnknownCategory: a name of the person's own
	frame    *regexp.Regexp   // a frame of the stack that allocated it; nil = any
	device   *regexp.Regexp   // nil = any
	low, top int64            // requested bytes, inclusive
}

// Limits of files with overrides.
const (
	maxOverrides = 1000
	maxLine      = 64 << 10 // bytes
)

// ReadOverrides reads lines such as
//
//	# a comment
//	teacher    frame=/teacher\.py:
//	kv_cache   frame="paged_attention.py:\\d+ allocate" size=1MiB..2GiB device=cuda:.*
//
// The first word is the category: a known one or any other name of letters, digits, _ and -. frame is a regular
// expression for a line "FILE:LINE FUNCTION" of the stack that allocated the buffer, device one for its device, size
// the requested bytes: a size or a range, which may leave out an end. Values with blanks are quoted as in Go. The first
// line that fits a buffer counts. file is the name for errors, which have the line.
func ReadOverrides(file string, in io.Reader) (*Overrides, error) {
	o := &Overrides{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		at := fmt.Sprintf("%s:%d", file, number)
		line, err := parseOverride(lines.Text())
		if err == nil && len(o.lines) == maxOverrides {
			err = fmt.Errorf("more than %d categories", maxOverrides)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if line != nil {
			line.at = at
			o.lines = append(o.lines, *line)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes", file, number+1, maxLine)
	case err != nil:
		return nil, err
	case len(o.lines) == 0:
		return nil, fmt.Errorf("%s: no categories; write lines such as: teacher frame=teacher.py", file)
	}
	return o, nil
}

// ownName matches the names of categories, up to maxName characters: a repetition in the pattern would copy the classes of Unicode.
var ownName = regexp.MustCompile(`^[\pL\pN_-]+$`)

const maxName = 64

// parseOverride reads a line; nil if it is empty.
func parseOverride(text string) (*override, error) {
	name, rest := word(text)
	if name == "" {
		return nil, nil
	}
	if !ownName.MatchString(name) || utf8.RuneCountInString(name) > maxName {
		return nil, fmt.Errorf("category %q: use letters, digits, _ and -, at most %d", name, maxName)
	}
	o := &override{name: name, category: purpose.CategoryOf(name), top: math.MaxInt64}
	for given := map[string]bool{}; ; {
		var condition string
		if condition, rest = word(rest); condition == "" {
			if len(given) == 0 {
				return nil, fmt.Errorf("category %s has no condition: frame=, size= or device=", name)
			}
			return o, nil
		}
		key, value, _ := strings.Cut(condition, "=")
		if given[key] {
			return nil, fmt.Errorf("%s= is given twice", key)
		}
		given[key] = true
		if err := o.limit(key, value); err != nil {
			return nil, err
		}
	}
}

// word returns the first word of a line and the rest. A comment ends the line.
func word(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "#") {
		return "", ""
	}
	end := strings.IndexAny(text, " \t")
	if quote := strings.Index(text, `="`); quote >= 0 && (end < 0 || quote < end) {
		if quoted, err := strconv.QuotedPrefix(text[quote+1:]); err == nil {
			value, _ := strconv.Unquote(quoted)
			return text[:quote+1] + value, text[quote+1+len(quoted):]
		}
	}
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

func (o *override) limit(key, value string) (err error) {
	switch key {
	case "frame":
		o.frame, err = expression(key, value)
	case "device":
		o.device, err = expression(key, value)
	case "size":
		low, top, isRange := strings.Cut(value, "..")
		if !isRange {
			top = low
		}
		if low != "" {
			o.low, err = units.ParseBytes(low)
		}
		if top != "" && err == nil {
			o.top, err = units.ParseBytes(top)
		}
		switch {
		case err != nil || low == "" && top == "":
			err = fmt.Errorf("size=%s: use a size such as 1MiB, or a range such as 1MiB..2GiB", value)
		case o.low > o.top:
			err = fmt.Errorf("size=%s: the range ends before it begins", value)
		}
	default:
		err = fmt.Errorf("unknown condition %q: use frame=, size= or device=", key)
	}
	return err
}

func expression(key, value string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(value)
	if bad := (*syntax.Error)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("%s=%s: %s near %q", key, value, bad.Code, bad.Expr)
	}
	if value == "" {
		return nil, fmt.Errorf("%s= has no value", key)
	}
	return re, err
}

// Add sets the purposes of buffers that a line fits. Its category replaces that of the rules.
func (o *Overrides) Add(t *lifetime.Tables, spaces []*lifetime.Space) {
	number := numbered(t)
	for _, line := range slices.Backward(o.lines) { // the first one counts: it is written last
		fits := line.stacks(t)
		for _, s := range spaces {
			if line.device != nil && !line.device.MatchString(s.Device) {
				continue
			}
			known := make([]lifetime.PurposeID, len(t.Purposes)) // the new purpose of each
			for i := range s.Buffers {
				b := &s.Buffers[i]
				if b.Requested < line.low || b.Requested > line.top || fits != nil && !fits[t.Sites[b.Site].Stack] {
					continue
				}
				if s.Purposes == nil {
					s.Purposes = make([]lifetime.PurposeID, len(s.Buffers))
				}
				id := &known[s.Purposes[i]]
				if *id == 0 {
					*id = number(line.purpose(t.Purpose(s.Purposes[i])), true)
				}
				s.Purposes[i] = *id
			}
		}
	}
}

func (o *override) purpose(p purpose.Purpose) purpose.Purpose {
	p.Category, p.Own, p.Evidence, p.Confidence, p.Rule = o.category, "", purpose.FromUser, 1, o.at
	p.How = p.Evidence.How()
	if o.category == purpose.UnknownCategory {
		p.Own = o.name
	}
	return p
}

// stacks returns, by StackID, whether a frame of the stack fits; nil if all do.
func (o *override) stacks(t *lifetime.Tables) []bool {
	if o.frame == nil {
		return nil
	}
	frames := make([]bool, len(t.Frames))
	for i := range t.Frames {
		f := &t.Frames[i]
		frames[i] = i > 0 && o.frame.MatchString(fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Function))
	}
	fits := make([]bool, len(t.Stacks))
	for id := range t.Stacks { // callers come first
		fits[id] = frames[t.Stacks[id].Frame] || fits[t.Stacks[id].Caller]
	}
	return fits
}
