package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed peers/*.py peers/*.cpp
var scripts embed.FS

// source returns the text of a file in folder peers.
func source(script string) string {
	text, err := scripts.ReadFile("peers/" + script)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// peers are the programs found on this machine; the others are "".
type peers struct {
	memlane, last, python, memoryViz, pprof, gunzip, simdjson string

	modules  map[string]string // versions of Python modules
	versions []string          // of everything that was found, for the heading
}

// findPeers looks for the peers but simdjson. It installs nothing.
func findPeers(ctx context.Context, python, memoryViz string) peers {
	p := peers{modules: map[string]string{}, memoryViz: memoryViz}
	p.findPython(ctx, python)
	if p.memoryViz != "" {
		p.versions = append(p.versions, "_memory_viz.py of torch "+torchVersion(p.memoryViz))
	}
	// "go tool" starts the tool as a subprocess, and builds it the first time: measure the tool alone.
	if out, err := exec.CommandContext(ctx, "go", "tool", "-n", "pprof").Output(); err == nil {
		p.pprof = strings.TrimSpace(string(out))
		if found(p.pprof) == "" {
			exec.CommandContext(ctx, "go", "tool", "pprof", "-h").Run()
		}
		p.note(ctx, "go tool pprof of ", "go", "env", "GOVERSION")
	}
	p.gunzip = found("gunzip")
	p.note(ctx, "", p.gunzip, "--version")
	return p
}

func (p *peers) findPython(ctx context.Context, python string) {
	out, err := exec.CommandContext(ctx, python, "-c", source("probe.py")).Output()
	if err != nil {
		return
	}
	p.python = python
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "memory_viz" {
			if _, err := os.Stat(value); err == nil && p.memoryViz == "" {
				p.memoryViz = value
			}
			continue
		}
		p.modules[name] = value
		p.versions = append(p.versions, name+" "+value)
	}
}

// compileSimdjson needs a compiler and simdjson of the system: libsimdjson-dev of Debian.
func (p *peers) compileSimdjson(ctx context.Context, folder string) {
	program := filepath.Join(folder, "simdjson")
	compiler := exec.CommandContext(ctx, "c++", "-O3", "-x", "c++", "-o", program, "-", "-lsimdjson")
	compiler.Stdin = strings.NewReader(source("simdjson.cpp"))
	if compiler.Run() == nil {
		p.simdjson = program
		p.note(ctx, "", program)
	}
}

func found(program string) string {
	path, _ := exec.LookPath(program) // "" when it is not there
	return path
}

// note records the first line that a program prints about its version.
func (p *peers) note(ctx context.Context, before, program string, args ...string) {
	if program == "" {
		return
	}
	if out, err := exec.CommandContext(ctx, program, args...).Output(); err == nil {
		line, _, _ := bytes.Cut(out, []byte("\n"))
		p.versions = append(p.versions, before+string(line))
	}
}

// torchVersion returns the version of the PyTorch installation that contains file.
func torchVersion(file string) string {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "version.py"))
	if m := regexp.MustCompile(`__version__ = '([^']+)'`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return "(version not known)"
}

// script returns a command that runs a Python script of folder peers. The script needs a module ("" for none).
func (p *peers) script(name, module, script string, args ...string) command {
	c := command{name: name, args: append([]string{p.python, "-c", source(script + ".py")}, args...)}
	switch {
	case p.python == "":
		c.missing = "python"
	case module != "" && p.modules[module] == "":
		c.missing = module
	}
	return c
}

// viz returns a command that runs _memory_viz.py.
func (p *peers) viz(name string, args ...string) command {
	c := command{name: name, args: append([]string{p.python, p.memoryViz}, args...)}
	if p.python == "" || p.memoryViz == "" {
		c.missing = "_memory_viz.py"
	}
	return c
}

// program returns a command that runs a program of the system.
func program(name, path string, args ...string) command {
	c := command{name: name, args: append([]string{path}, args...)}
	if path == "" {
		c.missing = name
	}
	return c
}

// findMemlane returns the path of the memlane program to measure: named, or else one that it builds into a folder from the module in
// the current directory.
func findMemlane(ctx context.Context, named, folder string) (string, error) {
	if named != "" {
		return exec.LookPath(named)
	}
	built := filepath.Join(folder, "memlane")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "parquet", "-o", built, "github.com/memlane/memlane/cmd/memlane").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build memlane; run this in its module, or give the program with --memlane: %w: %s", err, out)
	}
	return built, nil
}

// memlaneVersion returns the revision or version that a program was built from.
func memlaneVersion(file string) string {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "(version not known)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	version := info.Main.Version
	if revision := settings["vcs.revision"]; revision != "" {
		version = revision[:min(12, len(revision))] + choice(settings["vcs.modified"] == "true", " with changes", "")
	} else if version == "(devel)" {
		version = "of this tree"
	}
	return version + ", built with " + info.GoVersion
}
