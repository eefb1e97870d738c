package web

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// protect sets the headers of every answer: in a browser, it must not run, load or send
// anything, or be part of another page. The page has a separate policy.
func protect(h http.Header) {
	for name, value := range map[string]string{
		"Cache-Control":                "no-store", // captures may be secret
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

// refuse returns the reason for refusing a request, or "". Everyone who can reach the
// address may read the captures, but foreign pages in a user's browser must not.
func (s *Server) refuse(r *http.Request) (status int, why string) {
	switch {
	case !s.ownsHost(r.Host):
		return http.StatusMisdirectedRequest, "unknown host name: use the address of the server, or set its name with --http"
	case fromForeignPage(r):
		return http.StatusForbidden, "requests from pages of other sites are refused"
	}
	return 0, ""
}

// ownsHost reports whether a Host header names this server. The owner of another name can
// point it to this server; pages under that name could then read all answers. Addresses
// cannot be misused so. Any port is accepted, because tunnels change it.
func (s *Server) ownsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || s.Host != "" && strings.EqualFold(host, s.Host)
}

// fromForeignPage reports whether the headers of a browser name a foreign page, even one
// on another port of this machine. Browsers prevent such pages from reading the answer,
// but not from sending the request. Links to the page are accepted from anywhere, because
// the linking page cannot read the new page. Programs without these headers, such as
// curl, are accepted.
//
// CrossOriginProtection of net/http does not check GET, so it does not help here.
func fromForeignPage(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Host != r.Host { // also for "null"
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
