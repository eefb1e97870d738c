// Package web writes the interactive page: one HTML file that shows captures in a browser,
// from a disk or from [Server]. [Bundle] writes such a page for other data.
//
// Its place in the pipeline: after the model and the rules (lifetime/finding). Captures are
// in the page as columns (columns.go). The script (folder page, plain JavaScript) computes
// levels, breakdowns and pictures of any time from them.
//
// All data of a capture is compressed and in base64 inside the file, so it cannot become
// markup. The script adds it to the document only as text. A Content-Security-Policy names
// the page's own script and style by hash, and forbids requests to other servers.
//
// # What is drawn by hand
//
// uPlot draws all curves, axes and bars, and handles the mouse. The rest is drawn here because uPlot has no such chart,
// and a second library would be larger than the page:
//
//   - blocks (raster.js, view.js): up to a million rectangles. Each pixel looks up its buffer, so the cost depends on the screen.
//   - segments (map.js): rows with lengths of their own, with blocks at addresses.
//   - the difference of two captures (compare.js): bands above and below zero, whose groups change their order.
//   - marks, labels and the pinned buffer on the picture (view.js): they must not cover each other.
//   - flame graphs (flame.js): buttons in the document, so that keys and screen readers reach them.
//   - tables (table.js): only visible rows are in the document; a million rows would not fit.
//   - the picture to copy and the saved SVG (copy.js, save.js): the same pixels and blocks with titles and legends.
//
// # Security of the server
//
// Everyone who can reach the address of a Server can read the captures, and cannot change anything. memlane serve
// listens on 127.0.0.1 by default. Server defends against foreign pages in the user's browser:
//
//   - Host must be an address, localhost or Server.Host: an attacker can point other names
//     to this server (421).
//   - Origin, if present, must be the server's own. Sec-Fetch-Site must not be another site,
//     not even another port of this machine (403). Links from anywhere may open the page.
//   - Server.Token, if set, must be a parameter, or in the cookie that the page sets (403):
//     other users of the machine reach the address too.
//   - A parameter that its path does not have is refused (400).
//   - Only GET and HEAD are allowed (405). Paths are looked up in a list and never used as
//     file names. Server reads only what Read reads.
//   - Every answer forbids scripts, requests, frames, type guessing and caching. The page
//     allows its own script and style, and requests to its server.
//
// Limits for clients of Serve: 256 requests at a time, headers of 64 KiB that arrive within ten seconds, half a minute
// to accept 64 KiB of an answer. A further request is refused (503). Of more than 256 connections without a request,
// the oldest one is closed. Four answers of the API are made at a time, large ones into temporary files, and the page
// is built once, so memory does not grow with the number of clients, and none waits for a slow one. During a reload,
// both old and new captures are in memory. A panic ends only one answer. At shutdown, running answers have two seconds.
//
// The script and the style in folder assets are bundled from folder page:
//
//	go generate ./render/web
package web

//go:generate go tool esbuild page/main.js --bundle --format=iife --target=es2022 --minify --charset=utf8 --legal-comments=eof --log-level=warning --outfile=assets/page.js
//go:generate go tool esbuild page/page.css --bundle --minify --legal-comments=eof --log-level=warning --outfile=assets/page.css
