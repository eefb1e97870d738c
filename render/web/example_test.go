package web_test

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/web"
)

// Show the captures of a folder on a server of your own, each on its page. For captures that change, see Server.
func ExampleWrite() {
	root, err := os.OpenRoot("../../testdata/torchsnap") // no request leads out of it
	if err != nil {
		log.Fatal(err)
	}
	in := formats.Input{File: func(name string) (formats.File, error) { // pages show this name, not the path of the folder
		file, err := root.Open(name)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		return sized{file, info.Size()}, nil
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /memory/{name}", func(w http.ResponseWriter, r *http.Request) {
		capture, err := formats.Open(r.PathValue("name"), in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		var page bytes.Buffer // an error must not come after half a page
		if err := web.Write(&page, []*judge.Capture{judge.New(capture, finding.Settings{})}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		page.WriteTo(w)
	})

	for _, name := range []string{"leak_4mib_20steps.pickle", "README.md"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("GET", "/memory/"+name, nil))
		title, _, _ := strings.Cut(answer.Body.String(), "</title>")
		_, title, _ = strings.Cut(title, "<title>")
		fmt.Println(answer.Code, title)
	}
	// Output:
	// 200 leak_4mib_20steps.pickle · memlane
	// 404
}

type sized struct {
	*os.File
	size int64
}

func (f sized) Size() int64 { return f.size }
