package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version, commit and date of this program",
		Description: "Include its output in bug reports.\n\n" +
			"Examples:\n" +
			"  memlane version",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("version takes no arguments (got %q)", c.Args().First())
			}
			return printVersion(c)
		},
	}
}

func printVersion(c *cli.Context) error {
	info, _ := debug.ReadBuildInfo() // nil if built without modules
	_, err := fmt.Fprintln(c.App.Writer, versionText(info))
	return err
}

// versionText returns the version of the module, and the commit if the program was built
// in a checkout. go run and go test record neither.
func versionText(info *debug.BuildInfo) string {
	settings := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	commit := settings["vcs.revision"]
	if commit != "" && settings["vcs.modified"] == "true" {
		commit += " with changes"
	}
	if commit != "" {
		commit = fmt.Sprintf(" (commit %s, %s)", commit, settings["vcs.time"])
	}
	return fmt.Sprintf("memlane %s%s, %s, %s/%s", moduleVersion(info), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// moduleVersion returns the version of the module; info may be nil.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}
