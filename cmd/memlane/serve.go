package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/selection"
	"github.com/memlane/memlane/render/text"
	"github.com/memlane/memlane/render/web"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "show the interactive page in a browser on this machine",
		ArgsUsage: "[CAPTURE...]",
		Description: "Serves the page of memlane report -o report.html, and reads a capture again\n" +
			"when it changes. Only this machine can reach the page, unless --http names\n" +
			"another address, and only with the token in the address that memlane prints.\n" +
			"Press Ctrl-C to stop.\n\n" +
			"Without a capture, it serves a page that opens captures in the browser, if\n" +
			"this program was built with it (memlane man browser).\n\n" +
			"Examples:\n" +
			"  memlane serve snapshot.pickle\n" +
			"  memlane serve --http localhost:8080 --no-browser before.pickle after.pickle\n" +
			"  curl 'http://localhost:8080/api/info?token=TOKEN'",
		Flags: captureFlags(
			&cli.StringFlag{Name: "http", Value: "127.0.0.1:0", DefaultText: "127.0.0.1, any port",
				Usage: "listen on `HOST:PORT`"}, toggle("no-browser", "do not open a browser"),
			toggle("no-token", "let everyone who reaches the address read the captures")),
		Action: selecting(serve),
	}
}

// pollInterval is the time between two checks of whether the captures changed.
const pollInterval = time.Second

func serve(c *cli.Context, chosen *selection.Selection) error {
	if c.NArg() == 0 && localPage == nil {
		return usage("serve: no capture given, and this program was built without the page that opens captures in the browser; " +
			"see memlane serve --help and memlane man browser")
	}
	for _, flag := range c.LocalFlagNames() {
		if c.NArg() == 0 && flag != "http" && flag != "no-browser" {
			return usage("serve: --%s needs a capture", flag)
		}
	}
	host, _, err := net.SplitHostPort(c.String("http"))
	if err != nil {
		return usage("--http %q: use HOST:PORT, such as 127.0.0.1:8080", c.String("http"))
	}
	if host == "" { // Go would listen on all addresses of the machine
		return usage("--http %q: name the host; 0.0.0.0 is all addresses of this machine", c.String("http"))
	}
	listener, err := net.Listen("tcp", c.String("http"))
	if err != nil {
		if failed, ok := errors.AsType[*net.OpError](err); ok {
			err = failed.Err // without the address
		}
		return outputError(fmt.Errorf("--http %s: %w", c.String("http"), err))
	}
	if c.NArg() == 0 {
		return serveLocal(c, listener)
	}
	return serveOn(c, chosen, listener, host)
}

// serveLocal serves the page that opens captures in the browser, until the context is done.
func serveLocal(c *cli.Context, listener net.Listener) error {
	address := "http://" + localAddress(listener.Addr()) + "/"
	fmt.Fprintf(c.App.ErrWriter,
		"memlane: serving %s, a page to open captures in; they stay in the browser (press Ctrl-C to stop)\n", address)
	if !c.Bool("no-browser") {
		openBrowser(address)
	}
	return web.ServeFiles(c.Context, listener, localPage, c.App.ErrWriter)
}

// serveOn serves until the context is done, or the captures cannot be read.
func serveOn(c *cli.Context, selection *selection.Selection, listener net.Listener, host string) error {
	files, read := c.Args().Slice(), false
	server := &web.Server{
		Read: func(started func(string, int64) func(int)) ([]*judge.Capture, error) {
			if read { // the first read may wait for a pipe
				if err := web.StillFiles(files); err != nil {
					return nil, err
				}
			}
			read = true
			r := thatFind(finding.Settings{})
			r.in.Progress = started
			return r.all(c, selection)
		},
		Stamp: func() string { return web.Stamp(files) },
		Host:  host,
		Log:   c.App.ErrWriter,
	}
	address, query := "http://"+localAddress(listener.Addr())+"/", ""
	if !c.Bool("no-token") {
		server.Token, server.Once = rand.Text(), rand.Text()
		query = "?token="
	}
	fmt.Fprintf(c.App.ErrWriter, "memlane: serving %s (press Ctrl-C to stop)\n", address+query+server.Token)
	if !c.Bool("no-browser") {
		openBrowser(address + query + server.Once) // other users see command lines
	}
	time.AfterFunc(time.Minute, server.Forget)
	serving, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	go func() {
		if err := server.Load(); err != nil {
			cancel(err)
			return
		}
		server.Watch(c.Done(), pollInterval, func(err error) {
			fmt.Fprintln(c.App.ErrWriter, "memlane: warning: not read again:", text.Printable(err.Error()))
		})
	}()
	err := server.Serve(serving, listener)
	switch cause := context.Cause(serving); {
	case c.Err() != nil: // Ctrl-C is the normal end, even while captures are read
		return nil
	case cause != nil:
		return cause
	}
	return err
}

// localAddress returns the address under which this machine reaches a listener.
func localAddress(listening net.Addr) string {
	if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() { // all addresses
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return listening.String()
}

// openBrowser tries to open a page. It ignores failure, because the address was printed.
func openBrowser(address string) {
	command := []string{"xdg-open", address}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", address}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	if browser := os.Getenv("BROWSER"); browser != "" {
		command = []string{browser, address}
	}
	cmd := exec.Command(command[0], command[1:]...)
	if cmd.Start() == nil {
		go cmd.Wait()
	}
}
