package web

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

// answers are the paths of the API. Each returns the JSON of the command with its name.
var answers = map[string]func(w io.Writer, captures []*judge.Capture, query url.Values) error{
	"/api/info":  infoAPI,
	"/api/leaks": leaksAPI,
	"/api/peak":  peakAPI,
	"/api/model": modelAPI,
}

// Answer writes what [Server] answers to an address of its API, such as /api/peak?at=end. It
// fails if the address is unknown, or names something that the captures lack.
func Answer(w io.Writer, captures []*judge.Capture, address string) error {
	target, err := url.Parse(address)
	if err != nil {
		return err
	}
	answer := answers[target.Path]
	if answer == nil {
		return fmt.Errorf("unknown address %s; known are: %s", text.Printable(target.Path),
			strings.Join(slices.Sorted(maps.Keys(answers)), ", "))
	}
	if why := wrongParameter(target); why != "" {
		return errors.New(why)
	}
	return answer(w, captures, target.Query())
}

// parameters are those of each path, besides the token.
var parameters = map[string][]string{"/api/peak": {"at"}, "/api/model": {"capture"}}

// wrongParameter returns the reason for refusing the parameters of an address, or "".
func wrongParameter(address *url.URL) (why string) {
	query, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return "the parameters are malformed"
	}
	known := append([]string{"token"}, parameters[address.Path]...)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return fmt.Sprintf("unknown parameter %s; known are: %s", text.Printable(strconv.Quote(name)), strings.Join(known, ", "))
		}
		if len(query[name]) > 1 {
			return "the parameter " + name + " is given twice"
		}
	}
	return ""
}

// locked asks a capture that other clients ask too.
func locked(c *judge.Capture, ask func()) {
	c.Lock()
	defer c.Unlock()
	ask()
}

func infoAPI(w io.Writer, captures []*judge.Capture, _ url.Values) error {
	var all []answer.Capture
	for _, c := range captures {
		locked(c, func() { all = append(all, answer.InfoOf(c.Outline())) })
	}
	return model.WriteJSON(w, answer.NewInfo(all, nil))
}

func leaksAPI(w io.Writer, captures []*judge.Capture, _ url.Values) error {
	var all []answer.CaptureLeaks
	for _, c := range captures {
		locked(c, func() { all = append(all, answer.LeaksOf(c, "")) })
	}
	return model.WriteJSON(w, answer.NewLeaks(all, &answer.Ranks{}, nil))
}

// peakAPI answers /api/peak?at=WHEN for every memory ID, with compiled programs.
func peakAPI(w io.Writer, captures []*judge.Capture, query url.Values) error {
	moment := selection.AtPeak
	if text := query.Get("at"); text != "" {
		var err error
		if moment, err = selection.ParseMoment(text); err != nil {
			return fmt.Errorf("at=%w", err)
		}
	}
	all := []answer.Peak{}
	var none error
	for _, c := range captures {
		for _, s := range c.Spaces {
			t, err := moment.In(c.Tables.Name(), s)
			if err != nil {
				none = err
				continue
			}
			p := answer.PeakOf(&c.Tables, s, t)
			locked(c, func() { p.AddSavings(c, s) })
			all = append(all, p)
		}
	}
	if len(all) == 0 && none != nil {
		return none
	}
	return model.WriteJSON(w, answer.NewPeaks(selection.ByLine, moment, all))
}

// modelAPI answers /api/model?capture=N: the whole model of one capture.
func modelAPI(w io.Writer, captures []*judge.Capture, query url.Values) error {
	n := 0
	if text := query.Get("capture"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("capture=%q is not a number", text)
		}
	}
	if n < 0 || n >= len(captures) {
		return fmt.Errorf("capture=%d: the server has %s, numbered from 0", n, units.Plural(len(captures), "capture"))
	}
	return model.Write(w, captures[n].Capture)
}
