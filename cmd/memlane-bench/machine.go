package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// machine describes the machine, one fact per line.
func machine() []string {
	cpu := field("/proc/cpuinfo", "model name")
	if cpu == "" {
		cpu = "unknown processor"
	}
	facts := []string{fmt.Sprintf("%s, %d processors, %s/%s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		facts = append(facts, fmt.Sprintf("%.1f GB of memory", float64(kib<<10)/1e9))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		facts = append(facts, "load in the minute before the first run: "+strings.Fields(string(load))[0])
	}
	return facts
}

// field returns the value of a name in a /proc file, "" if it has none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `\s*:\s*(.*)$`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}
