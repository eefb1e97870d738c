package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/memlane/memlane/lifetime/judge"
)

// pipes is a listener inside the process, for tests with synthetic time.
type pipes struct {
	ask  chan net.Conn
	done chan struct{}
	once sync.Once
}

func newPipes() *pipes { return &pipes{ask: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ask:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial returns the client's end of a connection.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.ask <- server
	return client
}

// within runs a test with a server on pipes, in synthetic time. It stops the server after
// the test.
func within(t *testing.T, s *Server, test func(t *testing.T, p *pipes, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, p) }()
		test(t, p, stop)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// hungUp returns the time until the server closes a connection.
func hungUp(c net.Conn) time.Duration {
	began := time.Now()
	io.Copy(io.Discard, c)
	return time.Since(began)
}

const request = "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestSlowClients checks that the server disconnects clients that send no request, send it
// byte by byte, stay idle after an answer, or accept no part of an answer.
func TestSlowClients(t *testing.T) {
	s := answering(t)
	large := strings.Repeat("x", 1<<20)
	s.api["/api/large"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
		_, err := io.WriteString(w, large)
		return err
	}
	within(t, s, func(t *testing.T, p *pipes, _ func()) {
		silent := p.dial()
		if d := hungUp(silent); d > 15*time.Second {
			t.Errorf("a client that sends nothing is connected for %v", d)
		}
		slow := p.dial()
		go io.Copy(io.Discard, slow) // the answer
		began := time.Now()
		for i := 0; ; i++ {
			if _, err := slow.Write([]byte{fmt.Sprintf(request, "/api/x")[i%20]}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("a client that sends byte by byte is connected for %v", d)
		}
		resting := p.dial()
		fmt.Fprintf(resting, request, "/api/x")
		if d := hungUp(resting); d < 30*time.Second || d > 2*time.Minute {
			t.Errorf("an idle connection is open for %v", d)
		}

		// A client that accepts parts slowly gets the whole answer.
		patient := p.dial()
		fmt.Fprintf(patient, request, "/api/large")
		began, got := time.Now(), 0
		for b := make([]byte, 32<<10); got < len(large); {
			n, err := patient.Read(b)
			if got += n; err != nil {
				t.Fatalf("after %v and %d bytes: %v", time.Since(began), got, err)
			}
			time.Sleep(5 * time.Second)
		}
		if d := time.Since(began); d < time.Minute {
			t.Errorf("it took only %v", d)
		}
		patient.Close()

		taking := p.dial()
		fmt.Fprintf(taking, request, "/api/large")
		io.ReadFull(taking, make([]byte, 100))
		time.Sleep(2 * time.Minute)
		if n, _ := io.Copy(io.Discard, taking); n >= int64(len(large))-100 {
			t.Error("the server waits for a client that accepts nothing")
		}
	})
}

// TestManyClients checks the limits of connections, headers and concurrent API answers.
func TestManyClients(t *testing.T) {
	s := answering(t)
	var now, most atomic.Int64
	goOn := make(chan bool)
	s.api["/api/slow"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		<-goOn
		_, err := io.WriteString(w, "made")
		return err
	}
	within(t, s, func(t *testing.T, p *pipes, _ func()) {
		goOn = make(chan bool) // created inside the bubble of synthetic time
		var clients []net.Conn
		for range 64 {
			c := p.dial()
			fmt.Fprintf(c, request, "/api/slow")
			clients = append(clients, c)
		}
		synctest.Wait()
		if now.Load() != 4 {
			t.Errorf("%d answers are running", now.Load())
		}
		for _, c := range clients[32:] { // clients that disconnect free their places
			c.Close()
		}
		synctest.Wait()
		close(goOn)
		for _, c := range clients[:32] {
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != 200 {
				t.Errorf("%v, %v", answer, err)
			}
			c.Close()
		}
		synctest.Wait()
		if most.Load() != 4 {
			t.Errorf("%d answers ran at a time", most.Load())
		}

		goOn = make(chan bool)
		clients = clients[:0]
		for range 257 {
			c := p.dial()
			fmt.Fprintf(c, request, "/api/slow")
			synctest.Wait()
			clients = append(clients, c)
		}
		if answer, err := http.ReadResponse(bufio.NewReader(clients[256]), nil); err != nil || answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || !answer.Close {
			t.Errorf("the request beside 256 others: %v, %v", answer, err)
		}
		close(goOn)
		for _, c := range clients[:256] {
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != 200 {
				t.Errorf("%v, %v", answer, err)
			}
			c.Close()
		}
		synctest.Wait()

		clients = clients[:0]
		for range 256 {
			clients = append(clients, p.dial())
		}
		synctest.Wait()
		fmt.Fprintf(clients[0], "GET ") // a slow one, but the others send nothing
		synctest.Wait()
		another := p.dial()
		if d := hungUp(clients[1]); d > 0 {
			t.Errorf("the oldest silent connection stays for %v", d)
		}
		fmt.Fprintf(another, request, "/api/x")
		if answer, err := http.ReadResponse(bufio.NewReader(another), nil); err != nil || answer.StatusCode != 200 {
			t.Errorf("beside 256 silent connections: %v, %v", answer, err)
		}
		another.Close()
		for _, c := range clients {
			c.Close()
		}
		synctest.Wait()
		for _, head := range []string{"GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"} {
			c := p.dial()
			go io.WriteString(c, head)
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("a header of %d bytes: %v, %v", len(head), answer, err)
			}
			c.Close()
		}
	})
}

// TestSlowTakers checks that clients that are slow to take their answers do not hold others
// off.
func TestSlowTakers(t *testing.T) {
	s := answering(t)
	t.Setenv("TMPDIR", t.TempDir())
	large := strings.Repeat("x", 3<<20)
	s.api["/api/large"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
		_, err := io.WriteString(w, large)
		return err
	}
	within(t, s, func(t *testing.T, p *pipes, _ func()) {
		var slow []net.Conn
		for range 20 {
			c := p.dial()
			fmt.Fprintf(c, request, "/api/large")
			io.ReadFull(c, make([]byte, 100))
			slow = append(slow, c)
		}
		began := time.Now()
		other := p.dial()
		fmt.Fprintf(other, request, "/api/large")
		answer, err := http.ReadResponse(bufio.NewReader(other), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if d := time.Since(began); err != nil || string(body) != large || d > time.Second {
			t.Errorf("%d bytes after %v, %v", len(body), d, err)
		}
		for _, c := range append(slow, other) {
			c.Close()
		}
	})
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestNoRoomForAnswer checks the answer if there is no room for it.
func TestNoRoomForAnswer(t *testing.T) {
	s := answering(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	s.api["/api/large"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
		_, err := io.WriteString(w, strings.Repeat("x", 3<<20))
		return err
	}
	if got := asked(s, "GET", "/api/large", "localhost"); got.Code != 507 || !strings.HasPrefix(got.Body.String(), `{"error":"no room for the answer: `) {
		t.Errorf("status %d, %.100q", got.Code, got.Body)
	}
	if got := asked(s, "GET", "/api/x", "localhost"); got.Code != 200 {
		t.Errorf("a small answer: status %d", got.Code)
	}
}

// TestStop checks that running answers have a limited time at shutdown.
func TestStop(t *testing.T) {
	for needs, whole := range map[time.Duration]bool{time.Second: true, time.Hour: false} {
		s := answering(t)
		s.api["/api/slow"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
			time.Sleep(needs)
			_, err := io.WriteString(w, "made")
			return err
		}
		within(t, s, func(t *testing.T, p *pipes, stop func()) {
			resting := p.dial()
			under := p.dial()
			fmt.Fprintf(under, request, "/api/slow")
			synctest.Wait()
			began := time.Now()
			stop()
			text, err := io.ReadAll(under)
			if got := strings.Contains(string(text), "\r\n\r\nmade"); err != nil || got != whole {
				t.Errorf("an answer of %v: %q, %v", needs, text, err)
			}
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("it ends after %v", d)
			}
			hungUp(resting)
			time.Sleep(needs)
		})
	}
}

// printableLines fails the test for output that is not printable lines.
type printableLines struct {
	t *testing.T
	bytes.Buffer
}

func (p *printableLines) Write(b []byte) (int, error) {
	for _, r := range string(b) {
		if r != '\n' && !unicode.IsPrint(r) {
			p.t.Errorf("%U is written: %q", r, b)
			break
		}
	}
	return p.Buffer.Write(b)
}

// TestFaults checks that a panic, or an answer that fails in the middle, ends only this
// answer, and that the client notices it.
func TestFaults(t *testing.T) {
	s := answering(t)
	log := &printableLines{t: t}
	s.Log = log
	s.api["/api/fault"] = func(io.Writer, []*judge.Capture, url.Values) error { panic("name\x1b[2J\u202e of a capture") }
	s.api["/api/half"] = func(w io.Writer, _ []*judge.Capture, _ url.Values) error {
		io.WriteString(w, strings.Repeat("x", 1<<20))
		return errors.New("no more")
	}
	s.api["/api/wrong"] = func(io.Writer, []*judge.Capture, url.Values) error { return errors.New("wrong\x1b[2J\u202e") }
	within(t, s, func(t *testing.T, p *pipes, _ func()) {
		get := func(path string) (answer *http.Response, body string, err error) {
			c := p.dial()
			defer c.Close()
			go fmt.Fprintf(c, request, path)
			if answer, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				return nil, "", err
			}
			data, err := io.ReadAll(answer.Body)
			return answer, string(data), err
		}
		for range 10 { // more than maxAnswers
			if answer, _, err := get("/api/fault"); err == nil {
				t.Errorf("a panic answers %s", answer.Status)
			}
			if answer, body, err := get("/api/half"); err != nil || answer.StatusCode != 400 || body != `{"error":"no more"}`+"\n" {
				t.Errorf("half an answer: %v, %.100q, %v", answer, body, err)
			}
		}
		if answer, body, err := get("/api/wrong"); err != nil || answer.StatusCode != 400 || body != `{"error":"wrong?[2J?"}`+"\n" {
			t.Errorf("an invalid request: %v, %q, %v", answer, body, err)
		}
		if answer, body, err := get("/api/x"); err != nil || answer.StatusCode != 200 || body != secret {
			t.Errorf("after panics: %v, %q, %v", answer, body, err)
		}
	})
	if text := log.String(); strings.Count(text, "name?[2J? of a capture") != 10 || !strings.Contains(text, "limits_test.go") {
		t.Errorf("the log is:\n%s", text)
	}
}

// TestReload checks that every answer and page is of one state of the captures during
// reloads, and that old captures are released.
func TestReload(t *testing.T) {
	n := 0
	s := &Server{
		Read: func(started func(string, int64) func(int)) ([]*judge.Capture, error) {
			started("file", 100)(50)
			if n++; n%3 == 0 {
				return nil, errors.New("half written")
			}
			return make([]*judge.Capture, 0, n), nil
		},
		api: map[string]func(io.Writer, []*judge.Capture, url.Values) error{
			"/api/x": func(w io.Writer, c []*judge.Capture, _ url.Values) error {
				_, err := fmt.Fprint(w, cap(c))
				return err
			},
		},
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				var version int
				if _, err := fmt.Sscan(get(t, s, "/api/x"), &version); err != nil || version < last || version%3 == 0 {
					t.Errorf("state %d is followed by %d (%v)", last, version, err)
				}
				last = version
				if page := get(t, s, "/"); !strings.HasSuffix(page, "</html>\n") {
					t.Error("half a page")
				}
				statusOf(t, s)
			}
		})
	}
	for range 60 {
		s.Load()
	}
	close(done)
	clients.Wait()
	if got := get(t, s, "/api/x"); got != "61" {
		t.Errorf("the last answer is of state %s", got)
	}
}
