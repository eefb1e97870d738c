package laws

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/native"
)

func nativeText(t *rapid.T, c *lifetime.Capture) string {
	var text strings.Builder
	if err := native.Write(&text, c); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestNative: a model is the same after it is written and read. Written again, it has the
// same text.
func TestNative(t *testing.T) {
	for name, n := range map[string]numbers{"usual": usual, "extreme": extreme} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			c := anyCapture(t, n)
			text := nativeText(t, c)
			b := build.New(build.Everything)
			if err := native.Read("any", strings.NewReader(text), b); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			again, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Check(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if got := nativeText(t, again); got != text {
				t.Fatalf("wrote\n%s\nread and wrote\n%s", text, got)
			}
			if got, want := spelled(again), spelled(c); got != want {
				t.Fatalf("read\n%s\nof\n%s", got, want)
			}
		}))
	}
}

// spelled writes a model with values instead of IDs, because tables may have another order
// and unused entries.
func spelled(c *lifetime.Capture) string {
	var out strings.Builder
	stack := func(id lifetime.StackID) (frames []frame.Frame) {
		for f := range c.FramesOf(id) {
			frames = append(frames, *f)
		}
		return frames
	}
	site := func(id lifetime.SiteID) string {
		s := c.Sites[id]
		text := fmt.Sprintf("%+v %+v", stack(s.Stack), stack(s.Source))
		s.Stack, s.Source = 0, 0
		return text + fmt.Sprintf(" %+v", s)
	}
	for _, s := range c.Spaces {
		row := func(item any, id lifetime.SiteID, columns ...any) {
			fmt.Fprintf(&out, "%+v %s %q\n", item, site(id), columns)
		}
		for i, b := range s.Buffers {
			var columns []any
			if s.FreeSites != nil {
				columns = append(columns, site(s.FreeSites[i]))
			}
			if s.BufNotes != nil {
				columns = append(columns, c.Notes[s.BufNotes[i]])
			}
			if s.Holders != nil {
				columns = append(columns, c.Holders[s.Holders[i]])
			}
			if s.ValueIDs != nil {
				columns = append(columns, s.ValueIDs[i])
			}
			if s.FreeRequests != nil {
				columns = append(columns, s.FreeRequests[i])
			}
			id := b.Site
			b.Site = 0
			row(b, id, columns...)
		}
		for _, r := range s.Regions {
			id := r.Site
			r.Site = 0
			row(r, id)
		}
		for _, m := range s.Marks {
			id := m.Site
			m.Site = 0
			row(m, id)
		}
		for _, v := range s.Values {
			id := v.Site
			v.Site = 0
			row(v, id)
		}
		whole := *s
		whole.Buffers, whole.Regions, whole.Marks, whole.Values, whole.FreeSites, whole.BufNotes, whole.Holders, whole.ValueIDs, whole.FreeRequests = nil, nil, nil, nil, nil, nil, nil, nil, nil
		for v, i := reflect.ValueOf(whole), 0; i < v.NumField(); i++ { // unexported fields and pointers follow from the others
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Reports" {
				fmt.Fprintf(&out, "%s=%+v ", f.Name, v.Field(i).Interface())
			}
		}
	}
	for _, call := range c.Calls {
		id := call.Site
		call.Site = 0
		fmt.Fprintf(&out, "%+v %s\n", call, site(id))
	}
	fmt.Fprintf(&out, "%+v %+v %+v", c.Samples, c.Operations, c.Losses)
	return out.String()
}
