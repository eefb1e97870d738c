// Command memlane-web builds the page that needs no install: a folder for any static host,
// with the page and memlane's readers, rules and answers as a WebAssembly program.
//
//	go run ./cmd/memlane-web build/page
//
// Run it in the root of a checkout. The same sources and version of Go give the same bytes. The folder contains:
//
//   - index.html: the page of package render/web (page/local.js), and inside it the worker
//     (page/worker.js) with Go's wasm_exec.js;
//   - memlane.wasm.gz: the program of folder reader. It is compressed because many hosts
//     neither compress WebAssembly nor know its type; the page decompresses it while it loads.
//   - licences.txt: those of all code in the program.
//
// A browser reads the captures in a worker that inherits the policy of the page. The page
// forbids connections as soon as the program is loaded, before it accepts a capture.
//
// To have memlane serve show the page, build the folder into the program:
//
//	go run ./cmd/memlane-web cmd/memlane/page && go build -tags page ./cmd/memlane
package main
