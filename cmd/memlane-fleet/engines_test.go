//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memlane/memlane/internal/deep"
)

// TestEngines: with every engine, also if a worker dies, the results are those of run, byte
// for byte. -captures 2000 is the full size.
func TestEngines(t *testing.T) {
	e := newEngines(t)
	t.Run("run", e.testRun)
	t.Run("run killed", e.testRunKilled)
	t.Run("run resumed", e.testRunResumed)
	t.Run("Slurm", e.testSlurm)
	t.Run("Kubernetes", e.testKubernetes)
	t.Run("Spark", e.testSpark)
	t.Run("Ray", e.testRay)
}

// engines is the shared state of the tests of all engines.
type engines struct {
	*training
	bin     string            // the folder with memlane-fleet, first on the PATH
	program string            // memlane-fleet itself
	gate    string            // see gated
	want    map[string]string // the files of the results of run
}

// gated comes before memlane-fleet on the PATH of engines. While folder gate exists, the first
// call of map fails, as with an unreachable store. The next two calls succeed, and the others
// wait until the gate is open. While folder gate.spot exists, every fifth call of map is killed
// with its output half written.
const gated = `#!/bin/sh
if [ "$1" = map ] && [ -d '%[1]s.spot' ]; then
	n=1
	until mkdir '%[1]s.spot'/$n 2>/dev/null; do n=$((n + 1)); done
	if [ $((n %% 5)) = 1 ]; then
		'%[2]s' "$@" | head -c 9000
		kill -9 $$
	fi
fi
if [ "$1" = map ] && [ -d '%[1]s' ]; then
	mktemp '%[1]s'/called.XXXXXXXX >/dev/null
	if mkdir '%[1]s'/failed 2>/dev/null; then exit 5; fi
	if ! mkdir '%[1]s'/first 2>/dev/null && ! mkdir '%[1]s'/second 2>/dev/null; then
		mktemp '%[1]s'/waiting.XXXXXXXX >/dev/null
		until [ -e '%[1]s'/open ]; do sleep 0.1; done
	fi
fi
exec '%[2]s' "$@"
`

func newEngines(t *testing.T) *engines {
	dir := t.TempDir()
	e := &engines{bin: filepath.Join(dir, "bin"), program: filepath.Join(dir, "memlane-fleet"), gate: filepath.Join(dir, "gate")}
	for _, folder := range []string{e.bin, filepath.Join(dir, "job")} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.program, fmt.Appendf(nil, "#!/bin/sh\n%s=poison exec '%s' \"$@\"\n", asProgram, tests), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.bin, "memlane-fleet"), fmt.Appendf(nil, gated, e.gate, e.program), 0o777); err != nil {
		t.Fatal(err)
	}
	e.training = newTraining(t, filepath.Join(dir, "job"), *captures)
	results := filepath.Join(dir, "results")
	began := time.Now()
	succeeds(t, e.mapAndMerge(results))
	t.Logf("%d captures: run took %v", *captures, time.Since(began).Round(time.Millisecond))
	e.want = resultsIn(t, results)
	return e
}

// mapAndMerge returns the command for map and merge without an engine.
func (e *engines) mapAndMerge(results string, more ...string) *exec.Cmd {
	cmd := exec.Command(e.program, append([]string{"run", "--quiet", "-o", results}, more...)...)
	cmd.Stdin = strings.NewReader(lines(e.names))
	return cmd
}

func succeeds(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// same compares results with those of run.
func (e *engines) same(t *testing.T, results string) {
	t.Helper()
	sameResults(t, results, resultsIn(t, results), e.want)
}

// testRun: the results report exactly the anomalies of the job.
func (e *engines) testRun(t *testing.T) {
	var have struct {
		Summary  struct{ Captures, Read, Damaged, Refused, Missing int }
		Outliers []struct{ Rank, Measure string }
		Findings []struct {
			Rule, Place string
			Ranks       []string
		}
		Captures []struct{ Name, State, Reason string }
	}
	if err := json.Unmarshal([]byte(e.want["fleet.json"]), &have); err != nil {
		t.Fatal(err)
	}
	n := len(e.names)
	if s := have.Summary; s.Captures != n || s.Read != n-7 || s.Refused != 6 || s.Missing != 1 || s.Damaged != 0 {
		t.Errorf("summary %+v", s)
	}
	var outliers []string
	for _, o := range have.Outliers {
		outliers = append(outliers, o.Rank)
	}
	want := append(slices.Clone(e.leaking), e.peak)
	slices.Sort(outliers)
	slices.Sort(want)
	if !slices.Equal(outliers, want) {
		t.Errorf("outliers %q, want %q", outliers, want)
	}
	var leaks []string
	for _, f := range have.Findings {
		if f.Rule == "leak" {
			leaks = append(leaks, fmt.Sprint(f.Place, f.Ranks))
		}
	}
	if want := fmt.Sprint("record_loss (metrics.py:8)", e.leaking); len(leaks) != 1 || leaks[0] != want {
		t.Errorf("leaks %q, want %q", leaks, want)
	}
	reasons := map[string]bool{}
	for i, c := range have.Captures {
		want := "read"
		switch {
		case c.Name == e.missing:
			want = "missing"
		case slices.Contains(e.damaged, c.Name):
			want = "refused"
			reasons[c.Reason] = true
		}
		if c.Name != e.names[i] || c.State != want || (c.Reason == "") != (want == "read") {
			t.Errorf("capture %d: %+v, want %s, %s", i, c, e.names[i], want)
		}
	}
	if len(reasons) != 6 {
		t.Errorf("captures that are damaged in six ways have the reasons %v", reasons)
	}
}

// testRunResumed: a run that is killed at any instant continues.
func (e *engines) testRunResumed(t *testing.T) {
	began := time.Now()
	succeeds(t, e.mapAndMerge(t.TempDir()))
	usual := time.Since(began)
	rnd := rand.New(rand.NewPCG(20, 1))
	finished, kills := 0, deep.Or(3, 20)
	for range kills {
		results := t.TempDir()
		cmd := e.mapAndMerge(results)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.AfterFunc(time.Duration(rnd.Int64N(int64(usual))), func() { cmd.Process.Kill() })
		if cmd.Wait() == nil {
			finished++
		}
		after.Stop()
		succeeds(t, e.mapAndMerge(results))
		e.same(t, results)
	}
	t.Logf("killed at %d instants of %v, after the end of %d", kills, usual.Round(time.Millisecond), finished)
}

// testRunKilled: after a killed run, a new run continues from its cache.
func (e *engines) testRunKilled(t *testing.T) {
	for range 20 {
		results := t.TempDir()
		kept := func() map[string]fs.FileInfo {
			all := map[string]fs.FileInfo{}
			filepath.WalkDir(filepath.Join(results, "cache"), func(path string, entry fs.DirEntry, err error) error {
				// What is still named .tmp was being written, and is not kept.
				if err == nil && entry.Type().IsRegular() && !strings.HasSuffix(path, ".tmp") {
					all[path], _ = entry.Info()
				}
				return nil
			})
			return all
		}
		cmd := e.mapAndMerge(results)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			default:
				if len(kept()) >= len(e.names)/4 {
					cmd.Process.Kill()
				}
			}
		}
		if err == nil {
			continue // it was faster than the look at its cache
		}
		if entries, err := os.ReadDir(results); err != nil || len(entries) != 1 || entries[0].Name() != "cache" {
			t.Errorf("a run that was killed left %v, %v", entries, err)
		}
		before := kept()
		t.Logf("killed with %d of %d captures in the cache", len(before), len(e.names))
		succeeds(t, e.mapAndMerge(results))
		e.same(t, results)
		after := kept()
		for path, info := range before {
			if !os.SameFile(info, after[path]) {
				t.Errorf("%s was made again", path)
			}
		}
		return
	}
	t.Error("no run could be killed in the middle")
}

// environment is the environment of the programs of an engine.
func (e *engines) environment(more ...string) []string {
	return append(os.Environ(), append(more, "PART=200KiB", "PATH="+e.bin+string(os.PathListSeparator)+os.Getenv("PATH"))...)
}

// sbatch replaces that of Slurm: it runs the tasks of an array, and jobs that depend on it,
// immediately.
const sbatch = `#!/bin/bash
set -e
while [[ $1 == --* ]]; do
	case $1 in
	--array=0-*) last=${1#*-*-} last=${last##*-} ;;
	--dependency=afterok:4711) ;;
	--dependency=*) exit 1 ;;
	--wrap=*) wrapped=${1#*=} ;;
	esac
	shift
done
if [ -n "$wrapped" ]; then exec sh -c "$wrapped"; fi
for ((i = 0; i <= last; i++)); do
	SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=$((last + 1)) bash "$@"
done
echo '4711;cluster'
`

func (e *engines) testSlurm(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, in which jobs of Slurm run")
	}
	bin, results := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "sbatch"), []byte(sbatch), 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "engines/slurm_job.sh", e.list, filepath.Join(t.TempDir(), "records"), results, "--workers", "1", "--quiet")
	cmd.Env = e.environment("TASKS=7")
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+e.bin+":"+os.Getenv("PATH"))
	succeeds(t, cmd)
	e.same(t, results)
}

func (e *engines) testKubernetes(t *testing.T) {
	text, err := os.ReadFile("engines/kubernetes_job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text = bytes.ReplaceAll(text, []byte("/memlane/"), []byte(dir+"/"))
	pods := strconv.Itoa(deep.Or(10, 100))
	text = bytes.Replace(text, []byte("completions: 100"), []byte("completions: "+pods), 1)
	text = bytes.Replace(text, []byte(`TASKS, value: "100"`), []byte(`TASKS, value: "`+pods+`"`), 1)
	list, err := os.ReadFile(e.list)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "captures.txt"), list, 0o666); err != nil {
		t.Fatal(err)
	}
	ran := ""
	e.spot(t, func() { ran = e.runManifests(t, text) })
	if want := "batch/v1 Job map Indexed\nbatch/v1 Job merge \n"; ran != want {
		t.Errorf("manifests are\n%swant\n%s", ran, want)
	}
	e.same(t, filepath.Join(dir, "results"))
}

// runManifests does what Kubernetes does with Jobs, one pod at a time, and returns which it ran.
func (e *engines) runManifests(t *testing.T, text []byte) (ran string) {
	type container struct {
		Command, Args []string
		Env           []struct{ Name, Value string }
	}
	type manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Labels map[string]string }
		Spec       struct {
			CompletionMode string `yaml:"completionMode"`
			Completions    int
			Retries        int `yaml:"backoffLimitPerIndex"`
			Template       struct {
				Spec struct{ Containers []container }
			}
		}
	}
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := documents.Decode(&m); err == io.EOF {
			return ran
		} else if err != nil {
			t.Fatal(err)
		}
		ran += m.APIVersion + " " + m.Kind + " " + m.Metadata.Labels["step"] + " " + m.Spec.CompletionMode + "\n"
		for i := range max(1, m.Spec.Completions) {
			for _, c := range m.Spec.Template.Spec.Containers {
				words := append(slices.Clone(c.Command), c.Args...)
				if words[0] == "memlane-fleet" {
					words[0] = e.program
				}
				pod := func() *exec.Cmd {
					cmd := exec.Command(words[0], words[1:]...)
					cmd.Env = e.environment("JOB_COMPLETION_INDEX=" + strconv.Itoa(i))
					for _, v := range c.Env {
						cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
					}
					return cmd
				}
				failed := 0
				for failed < m.Spec.Retries && pod().Run() != nil {
					failed++
				}
				if failed == m.Spec.Retries {
					succeeds(t, pod())
				}
			}
		}
	}
}

// python returns an interpreter that has a module.
func python(t *testing.T, module string, required bool) string {
	t.Helper()
	p := cmp.Or(os.Getenv("MEMLANE_PYTHON"), "python3")
	if out, err := exec.Command(p, "-c", "import "+module).CombinedOutput(); err != nil {
		if required {
			t.Fatalf("%s: %v\n%s", p, err, out)
		}
		t.Skipf("no %s for %s (MEMLANE_PYTHON names another): pip install %s", module, p, module)
	}
	return p
}

// killed runs a job and kills a worker of its engine, after the first call of map failed, two
// succeeded, and one waits on each of the two workers.
func (e *engines) killed(t *testing.T, cmd *exec.Cmd, kill func()) {
	t.Helper()
	if err := os.Mkdir(e.gate, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(e.gate)
	called := func(how string) int {
		files, err := filepath.Glob(filepath.Join(e.gate, how+".*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for called("waiting") < 2 {
		select {
		case err := <-ended:
			t.Fatalf("it ended early: %v\n%s", err, &out)
		case <-time.After(50 * time.Millisecond):
		}
	}
	kill()
	if err := os.WriteFile(filepath.Join(e.gate, "open"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	// One call failed, and one was lost.
	if least := len(e.names)/10 + 2; called("called") < least {
		t.Errorf("map was called %d times, want %d or more", called("called"), least)
	}
}

// spot runs a job while every fifth of its tasks is killed.
func (e *engines) spot(t *testing.T, job func()) {
	t.Helper()
	calls := e.gate + ".spot"
	if err := os.Mkdir(calls, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(calls)
	job()
	tasks, err := os.ReadDir(calls)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) < 2 {
		t.Errorf("%d tasks", len(tasks))
	}
	t.Logf("of %d tasks %d were killed", len(tasks), (len(tasks)+4)/5)
}

func (e *engines) testSpark(t *testing.T) {
	p := python(t, "pyspark", os.Getenv("CI") != "")
	if _, err := exec.LookPath("java"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no Java, in which Spark runs")
	}
	home, err := exec.Command(p, "-c", "import pyspark; print(pyspark.__path__[0])").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(strings.TrimSpace(string(home)), "bin")
	environment := e.environment("SPARK_HOME="+filepath.Dir(bin), "SPARK_LOCAL_IP=127.0.0.1", "SPARK_LOCAL_DIRS="+t.TempDir(),
		"PYSPARK_PYTHON="+p, "PYSPARK_DRIVER_PYTHON="+p, "JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC") // they start in half the time
	node := func(class string, args ...string) *daemon {
		args = append([]string{"org.apache.spark.deploy." + class, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"}, args...)
		cmd := exec.Command(filepath.Join(bin, "spark-class"), args...)
		cmd.Env = environment
		return start(t, cmd)
	}
	master := node("master.Master").printed(t, "Starting Spark master at ")
	var workers [2]*daemon
	for i := range workers {
		workers[i] = node("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", t.TempDir(), master)
	}
	for _, w := range workers {
		w.printed(t, "Successfully registered with master")
	}
	submit := func(results string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "spark-submit"), "--master", master, "--driver-memory", "512m", "--executor-memory", "512m",
			"--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1", "engines/spark_job.py",
			e.list, filepath.Join(t.TempDir(), "records"), results, "--workers", "1", "--quiet")
		cmd.Env = environment
		return cmd
	}
	e.thrice(t, submit, workers[0].kill)
}

// thrice runs a job without failures, with a fifth of its tasks killed, and with a killed worker.
func (e *engines) thrice(t *testing.T, job func(results string) *exec.Cmd, kill func()) {
	results := t.TempDir()
	began := time.Now()
	succeeds(t, job(results))
	t.Logf("%d captures took %v", len(e.names), time.Since(began).Round(time.Millisecond))
	e.same(t, results)

	results = t.TempDir()
	e.spot(t, func() { succeeds(t, job(results)) })
	e.same(t, results)

	results = t.TempDir()
	e.killed(t, job(results), kill)
	e.same(t, results)
}

// daemon is a program that runs until the test ends, or until it is killed.
type daemon struct {
	cmd    *exec.Cmd
	output string // a file with its output
	ended  chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &daemon{cmd, output.Name(), make(chan struct{})}
	go func() {
		cmd.Wait()
		close(d.ended)
	}()
	t.Cleanup(d.kill)
	return d
}

// printed waits until the daemon prints what and returns the rest of that line.
func (d *daemon) printed(t *testing.T, what string) string {
	t.Helper()
	for {
		output, err := os.ReadFile(d.output)
		if err != nil {
			t.Fatal(err)
		}
		if _, after, ok := strings.Cut(string(output), what); ok {
			if rest, _, ok := strings.Cut(after, "\n"); ok {
				return rest
			}
		}
		select {
		case <-d.ended:
			t.Fatalf("%s ended before it output %q:\n%s", d.cmd, what, output)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill ends the daemon and its subprocesses at once.
func (d *daemon) kill() {
	select {
	case <-d.ended:
	default:
		syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.ended
	}
}

// rayCluster is a Ray cluster with two workers on this machine. On request it kills one of
// them with its processes.
const rayCluster = `import contextlib, sys
from ray.cluster_utils import Cluster
import psutil # which comes with Ray
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
print("cluster at " + cluster.address, flush=True)
for _ in sys.stdin:
    node = nodes.pop()
    doomed = psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for process in doomed: # those that did not see yet that their node is gone
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    print("killed one", flush=True)
`

func (e *engines) testRay(t *testing.T) {
	p := python(t, "ray", false)
	dir, err := os.MkdirTemp("", "ray") // the names of its sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	environment := e.environment("RAY_TMPDIR="+dir, "RAY_USAGE_STATS_ENABLED=0", "RAY_AUTH_MODE=disabled",
		"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0") // on those, it stays on 127.0.0.1
	cluster := exec.Command(p, "-c", rayCluster)
	cluster.Env = environment
	commands, err := cluster.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cluster)
	address := c.printed(t, "cluster at ")
	run := func(results string) *exec.Cmd {
		cmd := exec.Command(p, "engines/ray_job.py", e.list, results, "--workers", "1", "--quiet")
		cmd.Env = append(environment, "RAY_ADDRESS="+address)
		return cmd
	}
	e.thrice(t, run, func() {
		fmt.Fprintln(commands, "kill")
		c.printed(t, "killed")
	})
}
