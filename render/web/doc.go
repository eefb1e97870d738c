// Package web makes the interactive page: one HTML file that shows captures in a
// browser, from a disk or from Server, and asks for nothing beyond itself.
//
// Its place in the pipeline: after the model and the rules (lifetime/leak),
// beside the other renderers. Captures travel as columns (columns.go), and the
// page (folder page, plain JavaScript) answers from them what it is asked:
// levels, breakdowns and pictures of any moment.
//
// Everything that comes from a capture is compressed and in base64 inside the
// file, so that none of it can be taken for markup; the page puts it into the
// document as text alone. A Content-Security-Policy names the page's own script
// and style by hash, and forbids every request that leaves the page.
//
// The script and the style in folder assets are bundled from folder page:
//
//	go generate ./render/web
package web

//go:generate go tool esbuild page/main.js --bundle --format=iife --target=es2022 --minify --charset=utf8 --legal-comments=eof --log-level=warning --outfile=assets/page.js
//go:generate go tool esbuild page/page.css --bundle --minify --legal-comments=eof --log-level=warning --outfile=assets/page.css
