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
// Bundle makes such a page of other data.
//
// # Who may ask a server, and what for
//
// Server shows what captures say to whoever reaches its address, and changes
// nothing. It listens where its user says; memlane serve says 127.0.0.1. What it
// guards against are pages from elsewhere in the browser of that user:
//
//   - Host must be an address, localhost or the name in Server.Host: a name that
//     somebody else owns can be made to lead here (421).
//   - Origin, where a browser sends one, must be the server's own, and Sec-Fetch-Site
//     must not name another site, be it another port of this machine (403). The page
//     itself may be opened by a link from anywhere.
//   - Only GET and HEAD (405). Addresses are looked up in a list, and none is taken
//     for the name of a file: only what Read reads is read.
//   - Every answer forbids scripts, requests, frames, guesses at its type and copies on
//     disks; the page allows its own script and style, and requests to its server.
//
// Clients can tie up so much: 256 connections, headers of 64 KiB that arrive within
// ten seconds, four answers of the API under way while others wait, half a minute for
// every 64 KiB that are not taken. Answers are passed on as they are made, and the
// page is made once, so memory does not grow with the number of clients: it is that
// of the captures, and of both old and new ones while these are read. A fault ends
// the one answer. At the end answers under way have two seconds.
//
// The script and the style in folder assets are bundled from folder page:
//
//	go generate ./render/web
package web

//go:generate go tool esbuild page/main.js --bundle --format=iife --target=es2022 --minify --charset=utf8 --legal-comments=eof --log-level=warning --outfile=assets/page.js
//go:generate go tool esbuild page/page.css --bundle --minify --legal-comments=eof --log-level=warning --outfile=assets/page.css
