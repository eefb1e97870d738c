package torchsnap

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Sniff reports whether head, the first bytes of a file, look like a pickle or an HTML page, which may contain one.
func Sniff(head []byte) bool {
	if len(head) >= 2 && head[0] == 0x80 && head[1] <= 5 {
		return true
	}
	for _, start := range []string{"(dp", "(lp", "}q", "]q", "(d.", "(l.", "}.", "].", "(dq", "(lq"} { // protocols 0 and 1
		if bytes.HasPrefix(head, []byte(start)) {
			return true
		}
	}
	return importFirst.Match(head) || isPage(head)
}

// importFirst matches pickles of protocol 0 that begin with an import. Read refuses
// them, and its error explains more than that of an unknown file.
var importFirst = regexp.MustCompile(`^c[a-zA-Z_][\w.]*\n[\w.]+\n[p(q)]`)

func isPage(head []byte) bool {
	text := bytes.ToLower(bytes.TrimLeft(head, "\ufeff \t\r\n"))
	return bytes.HasPrefix(text, []byte("<!doctype html")) || bytes.HasPrefix(text, []byte("<html"))
}

// Read reads a snapshot, or an HTML page that contains one, into b. It uses the readable part of a truncated snapshot
// and adds a Truncated loss. It fails if the pickle is damaged, is more than plain data, or is not a snapshot.
func Read(file string, in io.Reader, b *build.Builder) error {
	head := make([]byte, 512)
	n, err := io.ReadFull(in, head)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	head = head[:n]
	in = io.MultiReader(bytes.NewReader(head), in)
	if isPage(head) {
		if in, err = pickleInPage(in); err != nil {
			return err
		}
	}
	r := newReader(in, b)
	defer r.end()
	root, err := r.d.Decode()
	if errors.Is(err, pickle.ErrTruncated) {
		b.Lose(loss.Truncated, 1, 0, strings.TrimSuffix(err.Error(), ": "+pickle.ErrTruncated.Error()))
	} else if corrupt := base64.CorruptInputError(0); errors.As(err, &corrupt) {
		return fmt.Errorf("the snapshot inside the HTML page is damaged at its byte %d; make the page again", int64(corrupt))
	} else if err != nil {
		return withAdvice(err)
	}
	if err := r.finish(root); err != nil {
		return err
	}
	b.Source(lifetime.Source{File: file, Format: "torch-snapshot", Producer: "PyTorch", Settings: r.settings})
	return nil
}

// withAdvice adds to an error of the pickle what the user can do.
func withAdvice(err error) error {
	switch bad, ok := errors.AsType[*pickle.Error](err); {
	case !ok:
		return err // a read error
	case bad.Refused:
		return fmt.Errorf("%w; a snapshot is plain data, as torch.cuda.memory._dump_snapshot(\"FILE\") writes it", err)
	}
	return fmt.Errorf("%w: damaged, or not a pickle; copy it again or dump a new one", err)
}

// pickleInPage returns the pickle inside a page of torch.cuda._memory_viz: the base64
// string after the key "base64" of a list of files. It fails if the page has none.
func pickleInPage(in io.Reader) (io.Reader, error) {
	const searched = 1 << 20
	page, err := io.ReadAll(io.LimitReader(in, searched))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a compressed page may be cut
		return nil, err
	}
	key := regexp.MustCompile(`"?base64"?\s*:\s*["']`)
	at := key.FindIndex(page)
	if at == nil {
		return nil, fmt.Errorf("an HTML page%s without a memory snapshot: give the .pickle file that it was made from, "+
			"or, if you expected a download, download the capture again", titled(page))
	}
	text := io.MultiReader(bytes.NewReader(page[at[1]:]), in)
	return base64.NewDecoder(base64.StdEncoding, &untilQuote{in: text}), nil
}

// titled returns the title of a page for an error message, or "". The title of a login
// or error page explains a failed download.
func titled(page []byte) string {
	title := regexp.MustCompile(`(?i)<title>\s*([^<]{1,60})`).FindSubmatch(page)
	if title == nil {
		return ""
	}
	return fmt.Sprintf(" titled %q", bytes.TrimSpace(title[1]))
}

// untilQuote ends a stream at the closing quote of a JSON string.
type untilQuote struct {
	in   io.Reader
	done bool
}

func (u *untilQuote) Read(p []byte) (int, error) {
	if u.done {
		return 0, io.EOF
	}
	n, err := u.in.Read(p)
	if i := bytes.IndexAny(p[:n], `"'`); i >= 0 {
		u.done = true
		return i, io.EOF
	}
	return n, err
}
