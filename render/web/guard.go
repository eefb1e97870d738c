package web

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// protect sets the headers of every answer: what a browser shows of it may neither
// run, load nor send anything, nor be part of another page. The page has a policy
// of its own.
func protect(h http.Header) {
	for name, value := range map[string]string{
		"Cache-Control":                "no-store", // captures may be secret, disks are not
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'; sandbox",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	} {
		h.Set(name, value)
	}
}

// refuse says why a request is not answered, "" for one that is. Whoever reaches
// the address may read the captures; but the browser of someone who may must not
// read them for a page from elsewhere.
func (s *Server) refuse(r *http.Request) (status int, why string) {
	switch {
	case !s.isCalled(r.Host):
		return http.StatusMisdirectedRequest, "not a name of this server: call it by its address, or name it with --http"
	case fromElsewhere(r):
		return http.StatusForbidden, "asked for by a page that is not of this server"
	}
	return 0, ""
}

// isCalled reports whether a Host header names this server. A name can be made to
// lead here by whoever owns it, and the pages under that name could then read all
// answers; an address cannot. The port may be any: that of a tunnel is another one.
func (s *Server) isCalled(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || s.Host != "" && strings.EqualFold(host, s.Host)
}

// fromElsewhere reports whether a browser says that a page of another program asks,
// also one of another port of this machine. Browsers keep such pages from reading
// the answer, but not from having it made. A link to the page may stand anywhere:
// what it opens is out of reach of where it stood. Programs without such headers,
// such as curl, do as they are told by who runs them.
//
// CrossOriginProtection of net/http is for methods that change something, and lets
// GET pass.
func fromElsewhere(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host != r.Host { // as that of "null"
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
