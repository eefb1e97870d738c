package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/render/web"
)

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: go run ./cmd/memlane-web FOLDER")
		os.Exit(2)
	}
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "memlane-web:", err)
		os.Exit(1)
	}
}

// build writes the page into a folder.
func build(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	page, err := pageOf()
	if err != nil {
		return err
	}
	program, err := programOf()
	if err != nil {
		return err
	}
	texts, err := licences()
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{"index.html", page}, {"memlane.wasm.gz", program}, {"licences.txt", texts}} {
		path := filepath.Join(folder, file.name)
		if err := os.WriteFile(path, file.data, 0o666); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", path, len(file.data))
	}
	return nil
}

// example is a training that ran out of memory, small enough for the page to have it.
const example = "testdata/replay/b03.c2.oom.pickle.zst"

const reader = "./cmd/memlane-web/reader"

// forWasm returns an environment in which Go builds for browsers.
func forWasm() []string {
	return append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWASM=", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off",
		"GOWORK=off", "CGO_ENABLED=0")
}

// programOf compiles the readers, and returns them compressed.
func programOf() ([]byte, error) {
	folder, err := os.MkdirTemp("", "memlane-web-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "memlane.wasm")
	// The commit and the flags of this machine would change the bytes.
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, reader)
	command.Env = forWasm()
	if _, err := output(command); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// pageOf returns the page without its program.
func pageOf() ([]byte, error) {
	script, err := bundle("render/web/page/local.js", "--format=iife", "--target=es2022", "--charset=utf8")
	if err != nil {
		return nil, err
	}
	style, err := bundle("render/web/page/local.css")
	if err != nil {
		return nil, err
	}
	runner, err := fromGo("lib/wasm/wasm_exec.js") // of the Go that compiles
	if err != nil {
		return nil, err
	}
	worker, err := os.ReadFile("render/web/page/worker.js")
	if err != nil {
		return nil, err
	}
	var docs []string
	for _, f := range formats.All() {
		docs = append(docs, f.Doc)
	}
	list, err := json.Marshal(docs)
	if err != nil {
		return nil, err
	}
	capture, err := os.ReadFile(example)
	if err != nil {
		return nil, err
	}
	frame := web.Bundle{Script: string(script), Style: string(style), Instead: "Or run memlane on your machine.", Wasm: true}
	var page bytes.Buffer
	err = frame.Write(&page, "captures", []web.Part{{ID: "worker", Data: slices.Concat(runner, worker)},
		{ID: "formats", Data: list}, {ID: "example", Data: capture}})
	return page.Bytes(), err
}

// fromGo returns a file of Go's own folder.
func fromGo(name string) ([]byte, error) {
	root, err := output(exec.Command("go", "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), name))
}

// licences returns the licence texts of memlane, Go and all modules in the program. That of uPlot is in the page.
func licences() ([]byte, error) {
	text, err := fromGo("LICENSE")
	if err != nil {
		return nil, err
	}
	all := fmt.Appendf(nil, "Go\n\n%s", text)
	command := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", reader)
	command.Env = forWasm()
	list, err := output(command)
	if err != nil {
		return nil, err
	}
	modules := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		path, folder, _ := strings.Cut(module, " ")
		files, err := filepath.Glob(filepath.Join(folder, "LICENSE*"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%s has no LICENSE in %s", path, folder)
		}
		for _, file := range files {
			if text, err = os.ReadFile(file); err != nil {
				return nil, err
			}
			all = fmt.Appendf(all, "\n\n%s\n\n%s", path, text)
		}
	}
	return all, nil
}

// bundle returns a script or a style with all that it imports.
func bundle(file string, flags ...string) ([]byte, error) {
	all := append([]string{"tool", "esbuild", file, "--bundle", "--minify", "--legal-comments=eof", "--log-level=warning"}, flags...)
	return output(exec.Command("go", all...))
}

// output runs a command of Go and returns its output.
func output(command *exec.Cmd) ([]byte, error) {
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(command.Args[:3], " "), err)
	}
	return out, err
}
