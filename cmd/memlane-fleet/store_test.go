package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// store is an S3 store on this machine that counts the bytes it sends, and fails on request.
type store struct {
	*httptest.Server
	bodies atomic.Int64 // bytes of objects that were sent
	gets   atomic.Int64 // requests for them

	mu    sync.Mutex
	fails func(r *http.Request) (status int) // 0: it works; -1: it breaks off in the middle; -2: it falls silent
}

const secretKey = "not/for+anybodys=eyes"

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{}
	backend := s3mem.New()
	if err := backend.CreateBucket("job"); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		status := 0
		if s.fails != nil {
			status = s.fails(r)
		}
		s.mu.Unlock()
		if status > 0 {
			http.Error(w, "<Error><Code>InternalError</Code><Message>"+r.Header.Get("Authorization")+secretKey+"</Message></Error>", status)
			return
		}
		if status == -2 {
			<-r.Context().Done()
			return
		}
		object := r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") > 1
		if object {
			s.gets.Add(1)
		}
		handler.ServeHTTP(&counted{w, s, object, status < 0, 0}, r)
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLEEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	return s
}

// counted is the answer to one request.
type counted struct {
	http.ResponseWriter
	of     *store
	object bool
	breaks bool
	n      int64
}

func (c *counted) Write(b []byte) (int, error) {
	if c.breaks && c.object && c.n+int64(len(b)) > 100 {
		b = b[:max(0, 100-c.n)]
		n, _ := c.ResponseWriter.Write(b)
		c.of.bodies.Add(int64(n))
		panic(http.ErrAbortHandler)
	}
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	if c.object {
		c.of.bodies.Add(int64(n))
	}
	return n, err
}

// address returns the address of a key, which may be a pattern.
func (s *store) address(key string) string {
	return "s3://job/" + key + "?endpoint=" + s.URL + "&use_path_style=true&disable_https=true"
}

func (s *store) failing(how func(r *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = how
}

// bucket returns the bucket of the store.
func (s *store) bucket(t *testing.T) *blob.Bucket {
	t.Helper()
	bucket, err := blob.OpenBucket(t.Context(), strings.Replace(s.address(""), "/?", "?", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bucket.Close() })
	return bucket
}

// upload puts files into the store under their base names, and returns their total size.
func (s *store) upload(t *testing.T, names []string) (size int64) {
	t.Helper()
	bucket := s.bucket(t)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := bucket.WriteAll(context.Background(), filepath.Base(name), data, nil); err != nil {
			t.Fatal(err)
		}
		size += int64(len(data))
	}
	return size
}

// recordsOf returns the records in the output of map in binary form, with the base names of the
// captures.
func recordsOf(t *testing.T, out string) []byte {
	t.Helper()
	var all, renamed fleet.Fleet
	if err := addLines(context.Background(), &all, "map", strings.NewReader(out)); err != nil {
		t.Fatal(err)
	}
	for r := range all.Records() {
		whole := all.Record(r.Name)
		whole.Name = filepath.Base(r.Name)
		if whole.State == fleet.Missing {
			whole.Reason = "" // no file, no object
		}
		renamed.Add(whole)
	}
	return renamed.AppendBinary(nil)
}

// TestStore: captures in an object store give the same records as on a disk. Each byte is sent
// about once, also by a store with some failures. With a cache no byte is sent twice.
func TestStore(t *testing.T) {
	names := job(t)
	names = append(names, "../../testdata/xplane/tf_warm_cache.xplane.pb") // which is looked at twice
	local, _ := call(t, 0, lines(names), "map", "--quiet")
	want := recordsOf(t, local)
	silent := false
	t.Setenv("MEMLANE_FLEET_LONGEST", "5s")
	for _, how := range []struct {
		name  string
		fails func(r *http.Request) int
	}{
		{"well", nil},
		{"failing now and then", everyThird(http.StatusInternalServerError)},
		{"breaking off now and then", everyThird(-1)},
		{"busy now and then", everyThird(http.StatusServiceUnavailable)},
		{"silent once", func(r *http.Request) int {
			if r.Method == http.MethodGet && r.Header.Get("Range") != "" && !silent {
				silent = true
				return -2
			}
			return 0
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			s := newStore(t)
			size := s.upload(t, names)
			s.failing(how.fails)
			var addresses []string
			for _, name := range names {
				addresses = append(addresses, s.address(filepath.Base(name)))
			}
			cache := t.TempDir()
			for range 2 {
				out, stderr := call(t, 0, lines(addresses), "map", "--cache", cache)
				if !bytes.Equal(recordsOf(t, out), want) {
					t.Error("the records differ from those of a disk")
				}
				if text := out + stderr; strings.Contains(text, secretKey) || strings.Contains(text, "AKIA") || strings.Contains(out, s.URL) {
					t.Errorf("a secret in %s", text)
				}
			}
			if sent := s.bodies.Load(); sent < size || float64(sent) > 1.1*float64(size) {
				t.Errorf("%d bytes were sent of captures of %d", sent, size)
			}
		})
	}
}

// everyThird fails every third request for an object.
func everyThird(status int) func(*http.Request) int {
	n := 0
	return func(r *http.Request) int {
		if n++; n%3 == 0 {
			return status
		}
		return 0
	}
}

// TestStoreEnds: an error of the store ends the command without printing secrets; a missing
// capture does not end it.
func TestStoreEnds(t *testing.T) {
	s := newStore(t)
	s.upload(t, job(t))
	out, _ := call(t, 0, "", "map", "--quiet", s.address("nothing.pickle"))
	if !strings.Contains(out, `"state":"missing"`) {
		t.Errorf("says %s", out)
	}
	call(t, statusUsage, "", "map", "--quiet", s.address("nothing*"))
	out, _ = call(t, 0, "", "map", "--quiet", s.address("rank[0-2].pickle"))
	if strings.Count(out, "\n") != 3 {
		t.Errorf("a pattern finds %s", out)
	}
	s.failing(func(*http.Request) int { return http.StatusForbidden })
	_, stderr := call(t, statusFailed, "", "map", "--quiet", s.address("rank0.pickle"))
	if !strings.Contains(stderr, "credentials") || strings.Contains(stderr, secretKey) || strings.Contains(stderr, "AKIA") {
		t.Errorf("says %q", stderr)
	}
}

// TestStoreOfResults: results, records and the cache may be in a store.
func TestStoreOfResults(t *testing.T) {
	names := job(t)
	dir := t.TempDir()
	call(t, 0, lines(names), "run", "--quiet", "-o", dir)
	want := resultsIn(t, dir)
	s := newStore(t)
	call(t, 0, lines(names), "run", "--quiet", "-o", s.address("out"))
	bucket := s.bucket(t)
	have := map[string]string{}
	for name := range want {
		data, err := bucket.ReadAll(context.Background(), "out/"+name)
		if err != nil {
			t.Fatal(err)
		}
		have[name] = string(data)
	}
	sameResults(t, "in a store", have, want)

	records, _ := call(t, 0, lines(names), "map", "--quiet")
	if err := bucket.WriteAll(context.Background(), "records/part-0", []byte(records), nil); err != nil {
		t.Fatal(err)
	}
	merged := t.TempDir()
	call(t, 0, "", "merge", "-o", merged, s.address("records/"))
	sameResults(t, "records from a store", resultsIn(t, merged), want)
}

// TestOneBucket: captures, results, cache and records may share a bucket.
func TestOneBucket(t *testing.T) {
	names := job(t)[:3]
	s := newStore(t)
	s.upload(t, names)
	call(t, 0, "", "run", "--quiet", "-o", s.address("out"), s.address("rank*.pickle"))
	records, _ := call(t, 0, "", "map", "--quiet", "--cache", s.address("cache"), s.address("rank0.pickle"), s.address("rank1.pickle"))
	bucket := s.bucket(t)
	if err := bucket.WriteAll(t.Context(), "records/part-0", []byte(records), nil); err != nil {
		t.Fatal(err)
	}
	call(t, 0, "", "merge", "-o", s.address("merged"), s.address("records/"))
	for _, key := range []string{"out/report.txt", "merged/report.txt"} {
		if _, err := bucket.ReadAll(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
}

// TestAddresses: splitAddress and address are inverse, and shown names have no credentials.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ address, bucket, key, shown string }{
		{"s3://b/k", "s3://b", "k", "s3://b/k"},
		{"s3://b/a/b?.pickle", "s3://b", "a/b?.pickle", "s3://b/a/b?.pickle"},
		{"s3://b/a/b?.pickle?region=x&y=z", "s3://b?region=x&y=z", "a/b?.pickle", "s3://b/a/b?.pickle"},
		{"gs://me:word@b/k", "gs://me:word@b", "k", "gs://b/k"},
	} {
		bucket, key, err := splitAddress(c.address)
		if err != nil || bucket != c.bucket || key != c.key || address(bucket, key) != c.address || shownName(c.address) != c.shown {
			t.Errorf("%s: %s and %s, %v; shown as %s", c.address, bucket, key, err, shownName(c.address))
		}
	}
	for text, want := range map[string]string{
		"GET https://a.example/b?X-Amz-Signature=abc&x=y": "GET https://a.example/b?X-Amz-Signature=…&x=y",
		"https://a/b?sv=1&sig=%2Fx%3D: 403":               "https://a/b?sv=1&sig=…",
		"s3://key:word@b/k: gone":                         "s3://…@b/k: gone",
	} {
		if have := withoutSecrets(text); !strings.HasPrefix(have, strings.TrimSuffix(want, "@b/k: gone")) || strings.Contains(have, "word") {
			t.Errorf("%q is printed as %q, want %q", text, have, want)
		}
	}
	if have := localPath("file:///a%20b/c"); have != "/a b/c" {
		t.Errorf("path %q", have)
	}
}
