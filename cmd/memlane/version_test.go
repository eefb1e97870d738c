package main

import (
	"regexp"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	commit := []debug.BuildSetting{setting("vcs", "git"), setting("vcs.revision", "0a1b2c"), setting("vcs.time", "2026-01-02T03:04:05Z"), setting("vcs.modified", "false")}
	changed := append(commit[:3:3], setting("vcs.modified", "true"))
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, `memlane \(devel\), `},
		{&debug.BuildInfo{}, `memlane \(devel\), `},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, `memlane v1\.2\.3, `},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, `memlane v1\.2\.3 \(commit 0a1b2c, 2026-01-02T03:04:05Z\), `},
		{&debug.BuildInfo{Settings: changed}, `memlane \(devel\) \(commit 0a1b2c with changes, 2026-01-02T03:04:05Z\), `},
	} {
		if got := versionText(c.info); !regexp.MustCompile(`^` + c.want + `go1\.\S+, \w+/\w+$`).MatchString(got) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	for _, args := range []string{"version", "--version"} {
		if got := succeed(t, args); !regexp.MustCompile(`^memlane .*\n$`).MatchString(got) {
			t.Errorf("memlane %s says %q", args, got)
		}
	}
}
