//go:build js

// Command reader is the program of the page that needs no install: memlane's readers, rules
// and answers, compiled to WebAssembly. worker.js runs it in a Web Worker, one for each
// choice of captures, so that closing the worker frees all memory.
//
// The global function choose(files) starts it, with files of the user. It posts messages:
//
//   - {file, read, size}: progress, in bytes;
//   - {step}: what it does after reading;
//   - {id, data}: a part of the page (package web);
//   - {done}: the page can be shown, although some parts may follow, and the global function
//     answer(address) returns what memlane serve answers to an address of its API: {text} or {error};
//   - {error, large}: no capture; large if the browser has too little memory for it.
package main

import (
	"bytes"
	"errors"
	"runtime/debug"
	"strings"
	"syscall/js"
	"time"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/web"
)

// maxMemory is how much memory captures and their analysis may take, in bytes. WebAssembly
// has addresses for 4 GiB. The page needs some of a browser's memory too.
const maxMemory = 3 << 30

// errLarge stands for all reasons why a capture does not fit.
var errLarge = errors.New("it needs more memory than a browser gives a page")

func main() {
	debug.SetMemoryLimit(maxMemory)
	chosen := make(chan js.Value, 1)
	js.Global().Set("choose", js.FuncOf(func(_ js.Value, args []js.Value) any {
		chosen <- args[0]
		return nil
	}))
	captures, err := read(<-chosen)
	if err == nil {
		post("step", "preparing the page")
		err = web.Parts(captures, func(p web.Part) error {
			data := bytesOf(p.Data)
			js.Global().Call("postMessage", map[string]any{"id": p.ID, "data": data}, []any{data.Get("buffer")})
			return nil
		}, func() { complete(captures) })
	}
	if err != nil {
		js.Global().Call("postMessage", map[string]any{"error": err.Error(), "large": errors.Is(err, errLarge)})
		return
	}
	select {}
}

// complete answers questions about captures whose page can be shown.
func complete(captures []*judge.Capture) {
	js.Global().Set("answer", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var text bytes.Buffer
		if err := web.Answer(&text, captures, args[0].String()); err != nil {
			return map[string]any{"error": err.Error()}
		}
		return map[string]any{"text": text.String()}
	}))
	post("done", true)
}

func post(name string, value any) {
	js.Global().Call("postMessage", map[string]any{name: value})
}

func bytesOf(data []byte) js.Value {
	all := js.Global().Get("Uint8Array").New(len(data))
	js.CopyBytesToJS(all, data)
	return all
}

// read reads files of the browser as captures, with their findings.
func read(chosen js.Value) (captures []*judge.Capture, err error) {
	limit := memlimit.New(maxMemory, "")
	for i := range chosen.Length() {
		file := chosen.Index(i)
		c, err := formats.Open(file.Get("name").String(), formats.Input{
			File:     func(string) (formats.File, error) { return newFile(file), nil },
			Progress: report,
			Stop: func() error {
				if limit.Check() != nil { // its advice is for the command line
					return errLarge
				}
				return nil
			},
		})
		if err != nil {
			return nil, err
		}
		post("step", "looking for leaks in "+c.Tables.Name())
		captures = append(captures, judge.New(c, finding.Settings{}))
	}
	return captures, nil
}

// interval is the time between two messages of progress.
const interval = 50 * time.Millisecond

// report posts the progress of a file.
func report(file string, size int64) func(n int) {
	read, last := int64(0), time.Time{}
	return func(n int) {
		read += int64(n)
		if now := time.Now(); now.Sub(last) > interval || read == size {
			last = now
			js.Global().Call("postMessage", map[string]any{"file": strings.ToValidUTF8(file, "?"), "read": read, "size": size})
		}
	}
}
