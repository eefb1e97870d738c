//go:build unix

package main

import (
	"cmp"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// TestDescriptors checks that a name of a descriptor stands for the descriptor. What
// others wrote into the file behind it stays.
func TestDescriptors(t *testing.T) {
	snapshot := absolute(t, snapshots+"/twodev.pickle")
	t.Chdir(t.TempDir())
	want := succeed(t, "report", "--quiet", snapshot)
	for name, file := range map[string]string{"link": "/dev/stdout", "chain": "link", "folder": "/dev/fd", "proc": "/proc/self/fd"} {
		if err := os.Symlink(file, name); err != nil {
			t.Skip(err)
		}
	}
	for _, redirected := range []string{"-o /dev/stdout", "-o /dev/fd/1", "-o /proc/self/fd/1", "-o /proc/thread-self/fd/1", "-o link", "-o chain", "-o folder/1",
		"-o proc/1", "-o /dev/stderr 2>&1", "-o /dev/fd/7 7>&1"} {
		if err := os.WriteFile("log", []byte("earlier\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "(memlane report --quiet "+redirected+" "+answer.Quoted(snapshot)+"; echo later) >>log").CombinedOutput()
		got, _ := os.ReadFile("log")
		if err != nil || string(got) != "earlier\n"+want+"later\n" {
			t.Errorf("memlane report %s >>log: %v %s; the log is\n%.300s", redirected, err, out, got)
		}
	}
	out, err := exec.Command("sh", "-c", "memlane svg --quiet -o /dev/fd/99 "+answer.Quoted(snapshot)).CombinedOutput()
	if err == nil || string(out) != "memlane: -o /dev/fd/99: bad file descriptor\n" {
		t.Errorf("a descriptor that is not open: %v: %s", err, out)
	}
}

// TestWrittenThrough checks that an output that is not a regular file is written, not
// replaced.
func TestWrittenThrough(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Skip(err)
	}
	read := make(chan []byte)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- data
	}()
	succeed(t, "svg", "--quiet", "-o", pipe, snapshots+"/twodev.pickle")
	if got := <-read; string(got) != succeed(t, "svg", "--quiet", snapshots+"/twodev.pickle") {
		t.Errorf("the pipe got %.100q", got)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is replaced: %v %v", info, err)
	}
}

// TestCaptureAsOutput checks that no command overwrites a capture without --force.
func TestCaptureAsOutput(t *testing.T) {
	_, written := commandLines(t)
	captures := map[string]string{"native": succeed(t, "export", "--to", "native", snapshots+"/twodev.pickle")}
	for name, from := range map[string]string{"snapshot": "torchsnap/twodev.pickle", "trace": "chrome/cpu_leak.json.gz", "profile": "xplane/tf_leak.xplane.pb",
		"program": "xplane/padded.hlo.pb", "live": "jaxprof/leak_after.memory.prof", "results": "gpumemprof/both.json"} {
		data, err := os.ReadFile("../../testdata/" + from)
		if err != nil {
			t.Fatal(err)
		}
		captures[name] = string(data)
	}
	captures["truncated"] = captures["snapshot"][:5000]
	captures["page"] = "<!DOCTYPE html>\n<script type=\"module\">\nimport {add_local_files} from \"MemoryViz.js\";\nconst local_files = [{\"name\": \"snapshot\", " +
		"\"base64\": " + strconv.Quote(base64.StdEncoding.EncodeToString([]byte(captures["snapshot"]))) + "}];\n</script>"
	t.Chdir(t.TempDir())
	for name, content := range captures {
		refuse := func(args, file, why string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			_, stderr, status := memlane("", words(t, args)...)
			if status != statusUsage || !strings.HasPrefix(stderr, "memlane: -o "+why) || !strings.HasSuffix(stderr, "; give another name, or --force to overwrite it\n") {
				t.Errorf("memlane %s over a %s: status %d, %q", args, name, status, stderr)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content {
				t.Errorf("memlane %s: the capture is %.100q (%v)", args, got, err)
			}
		}
		for _, command := range []string{"report", "report --json", "svg", "diff capture", "export --to csv"} {
			for _, output := range []string{"capture", "./capture", "link", "twin"} {
				if output == "link" || output == "twin" {
					if err := cmp.Or(os.RemoveAll("link"), os.RemoveAll("twin"), os.Symlink("capture", "link"), os.Link("capture", "twin")); err != nil {
						t.Fatal(err)
					}
				}
				refuse(command+" -o "+output+" capture", "capture", output+": it is the capture to read")
			}
		}
		for _, args := range written {
			file := words(t, args[strings.Index(args, "-o ")+3:])[0]
			if name != "native" { // which memlane can make again
				refuse(args, file, file+": it is a capture (")
			}
			os.Remove(file)
		}
	}
}

// TestCategoriesAsOutput checks that no command overwrites the categories that it reads without --force.
func TestCategoriesAsOutput(t *testing.T) {
	snapshot := absolute(t, snapshots+"/twodev.pickle")
	t.Chdir(t.TempDir())
	const own = "teacher frame=teacher.py\n"
	if err := cmp.Or(os.WriteFile("own", []byte(own), 0o666), os.Symlink("own", "link"), os.Link("own", "own.pb.gz")); err != nil {
		t.Fatal(err)
	}
	for args, output := range map[string]string{"report -o own": "own", "report -o link": "link", "export --to csv -o ./own": "./own",
		"pprof --at 10us -o own.pb.gz": "own.pb.gz"} {
		_, stderr, status := memlane("", append(strings.Fields(args), "--categories", "own", snapshot)...)
		want := "memlane: -o " + output + ": it is the file of --categories; give another name, or --force to overwrite it\n"
		if got, err := os.ReadFile("own"); err != nil || string(got) != own || status != statusUsage || stderr != want {
			t.Fatalf("memlane %s: status %d, %q; the file is %.40q (%v)", args, status, stderr, got, err)
		}
	}
	succeed(t, "report", "--quiet", "--force", "-o", "own", "--categories", "own", snapshot)
}

// TestOwnOutput checks that every command overwrites a capture with --force, and then its
// own output without.
func TestOwnOutput(t *testing.T) {
	_, written := commandLines(t)
	capture := absolute(t, "../../testdata/chrome/cpu_leak.json.gz")
	t.Chdir(t.TempDir())
	for _, args := range written {
		file := words(t, args[strings.Index(args, "-o ")+3:])[0]
		if err := os.Symlink(capture, file); err != nil { // followed to detect a capture
			t.Skip(err)
		}
		if _, stderr, status := memlane("", words(t, args)...); status != statusUsage {
			t.Errorf("memlane %s: status %d, %s", args, status, stderr)
		}
		os.Remove(file)
		first := succeed(t, append(words(t, args), "--force", "--quiet")...)
		if strings.Contains(args, "memory_timeline") { // which looks like PyTorch's own
			os.Remove(file)
			continue
		}
		if again := succeed(t, append(words(t, args), "--quiet")...); again != first {
			t.Errorf("memlane %s prints %q, then %q", args, first, again)
		}
		os.Remove(file)
	}
}
