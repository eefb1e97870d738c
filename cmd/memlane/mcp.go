package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/cmd/memlane/internal/mcp"
)

func mcpCommand() *cli.Command {
	return &cli.Command{
		Name:  "mcp",
		Usage: "answer questions of an AI agent, by the Model Context Protocol",
		Description: "A server on standard input and output. Its tools give the answers of the\n" +
			"commands: summary (info), why_oom (oom), leaks, peak, what_if, tune, diff,\n" +
			"where (peak --by stack) and who_holds (peak --by name --at end); captures\n" +
			"lists what there is. It reads captures below the roots, and writes nothing.\n\n" +
			"Examples:\n" +
			"  memlane mcp --root .\n" +
			"  claude mcp add memlane -- memlane mcp --root ~/captures",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "root", Usage: "captures below `FOLDER` may be read; can be repeated", DefaultText: "this folder", TakesFile: true},
			&cli.StringFlag{Name: "max-memory", Usage: "stop a question that needs more than `SIZE`"},
		},
		Action: serveMCP,
	}
}

// openKey is the key of what opens captures, in the context of a command; without it, os.Open does.
type openKey struct{}

func serveMCP(c *cli.Context) error {
	if c.Args().Present() {
		return usage("mcp: %q: captures are named in questions, and --root names their folder", c.Args().First())
	}
	var flags []string // of all commands
	if n, err := sizeOf(c, "max-memory", "2GiB"); err != nil {
		return err
	} else if n > 0 {
		flags = []string{"--max-memory=" + c.String("max-memory")}
	}
	roots := c.StringSlice("root")
	if len(roots) == 0 {
		roots = []string{"."}
	}
	info, _ := debug.ReadBuildInfo() // nil if built without modules
	var server *mcp.Server
	server, err := mcp.New(moduleVersion(info), roots, func(ctx context.Context, args []string) (stdout, stderr string, failed bool) {
		var out, message bytes.Buffer
		ctx = context.WithValue(ctx, openKey{}, server.Open)
		status := runIn(ctx, strings.NewReader(""), &out, &message, append(append([]string{"memlane", args[0]}, flags...), args[1:]...))
		return out.String(), message.String(), status != statusOK && status != statusNothing
	})
	if err != nil {
		return inputError(err)
	}
	if err = server.Serve(c.Context, c.App.Reader, c.App.Writer); err != nil && context.Cause(c.Context) == nil {
		err = inputError(fmt.Errorf("standard input: %w", err))
	}
	return err
}
