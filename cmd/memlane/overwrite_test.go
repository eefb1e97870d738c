//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// identity is what others see of a file besides its content.
type identity struct {
	mode     os.FileMode
	uid, gid uint32
	links    uint64
}

func identityOf(t *testing.T, file string) identity {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return identity{info.Mode(), s.Uid, s.Gid, uint64(s.Nlink)}
}

func writeText(file, text string) error {
	return writeFiles(context.Background(), []string{file}, func(w io.Writer, _ int) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// TestExistingOutput checks that an existing output stays what it is to others: only its
// content changes.
func TestExistingOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, prepare := range map[string]func() error{
		"plain":         func() error { return nil },
		"for all":       func() error { return os.Chmod("out", 0o666) }, // more than the umask leaves
		"private":       func() error { return os.Chmod("out", 0o600) },
		"executable":    func() error { return os.Chmod("out", 0o750) },
		"of another":    func() error { return os.Chown("out", 65534, 65534) }, // fails unless root runs the tests
		"of a group":    func() error { return cmp.Or(os.Chown("out", -1, anotherGroup()), os.Chmod("out", 0o664)) },
		"hard link":     func() error { return os.Link("out", "other") },
		"symbolic link": func() error { return cmp.Or(os.Rename("out", "folder/file"), os.Symlink("folder/file", "out")) },
		"closed folder": func() error {
			return cmp.Or(os.Rename("out", "folder/file"), os.Symlink("folder/file", "out"), os.Chmod("folder", 0o555))
		},
	} {
		for _, text := range []string{"short", "much longer than the old content"} {
			if err := cmp.Or(os.Mkdir("folder", 0o777), os.WriteFile("out", []byte("old content"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if err := prepare(); err != nil {
				t.Logf("%s: %v", name, err)
			} else {
				before := identityOf(t, "out")
				if err := writeText("out", text); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got, err := os.ReadFile("out")
				if now := identityOf(t, "out"); err != nil || string(got) != text || now != before {
					t.Errorf("%s: %q, %v; it was %+v and is %+v", name, got, err, before, now)
				}
				if other, err := os.ReadFile("other"); err == nil && string(other) != text {
					t.Errorf("%s: the other name has %q", name, other)
				}
			}
			os.Chmod("folder", 0o777)
			for file := range contentsBelow(t, ".") {
				if !slices.Contains([]string{"out", "other", "folder/file"}, file) {
					t.Errorf("%s: leaves %s", name, file)
				}
			}
			if err := cmp.Or(os.RemoveAll("folder"), os.Remove("out"), os.RemoveAll("other")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// anotherGroup returns a group that this user may give to a file.
func anotherGroup() int {
	groups, _ := os.Getgroups()
	return append(groups, os.Getgid())[0]
}

// contentsBelow returns the files in a folder and in those below.
func contentsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadOnlyOutput checks that a read-only output is refused, as > in a shell does.
func TestReadOnlyOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("out", []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile("out", os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Skip("it may be written: by root")
	}
	if err := writeText("out", "new"); err == nil || err.Error() != "-o out: permission denied" {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile("out"); err != nil || string(got) != "old" {
		t.Errorf("the file is %q (%v)", got, err)
	}
}

// TestKilledWhileWriting checks that not even SIGKILL leaves a part of an output, if the
// system has files without a name.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	f, name, err := createTemp(dir, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if name != "" {
		t.Skip("no files without a name here")
	}
	cmd := exec.Command("killed-while-writing", "new", "existing")
	cmd.Dir = dir
	if err := os.WriteFile(filepath.Join(dir, "existing"), []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("%v: %s", err, out)
	}
	if got := contents(t, dir); len(got) != 1 || got["existing"] != "old" {
		t.Errorf("leaves %q", got)
	}
}

func init() { programs["killed-while-writing"] = killedWhileWriting }

// killedWhileWriting is a program that writes the files in its arguments and is killed
// when the last one is nearly complete.
func killedWhileWriting() {
	files := os.Args[1:]
	err := writeFiles(context.Background(), files, func(w io.Writer, i int) error {
		fmt.Fprint(w, "some of it")
		if i == len(files)-1 {
			syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {} // until it has arrived
		}
		return nil
	})
	fmt.Println("not killed:", err)
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
			if strings.HasPrefix(args, "pprof --at") {
				file = "out-2.pb.gz" // of a series
			}
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
	if err := cmp.Or(os.WriteFile("own", []byte(own), 0o666), os.Symlink("own", "link"), os.Link("own", "own-1.pb.gz")); err != nil {
		t.Fatal(err)
	}
	for args, output := range map[string]string{"report -o own": "own", "report -o link": "link", "export --to csv -o ./own": "./own",
		"pprof --at 10us,20us -o own.pb.gz": "own-1.pb.gz"} {
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
		if _, stderr, status := memlane("", words(t, args)...); status != statusUsage && !strings.HasPrefix(args, "pprof --at") {
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
