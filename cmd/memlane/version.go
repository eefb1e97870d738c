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
		Usage: "version, commit and date of this program",
		Description: "What to name in a bug report.\n\n" +
			"Examples:\n" +
			"  memlane version",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("version: takes no arguments, but got %q", c.Args().First())
			}
			return printVersion(c)
		},
	}
}

func printVersion(c *cli.Context) error {
	info, _ := debug.ReadBuildInfo() // none: built without modules
	_, err := fmt.Fprintln(c.App.Writer, versionText(info))
	return err
}

// versionText says what Go wrote into the program: the version of the module, and
// the commit where it was built in a checkout. go run and go test write neither.
func versionText(info *debug.BuildInfo) string {
	version, commit, date, changed := "(devel)", "", "", ""
	if info != nil {
		version = cmp.Or(info.Main.Version, version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				date = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					changed = " with changes"
				}
			}
		}
	}
	of := ""
	if commit != "" {
		of = fmt.Sprintf(" (commit %s%s, %s)", commit, changed, date)
	}
	return fmt.Sprintf("memlane %s%s, %s, %s/%s", version, of, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
