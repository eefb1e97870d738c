//go:build !js

package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
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

// refuse returns the reason for refusing a request, or "". Who has the token may read the
// captures, but foreign pages in a user's browser must not.
func (s *Server) refuse(r *http.Request) (status int, why string) {
	switch {
	case !s.ownsHost(r.Host):
		return http.StatusMisdirectedRequest, "unknown host name: use the address of the server, or set its name with --http"
	case fromForeignPage(r):
		return http.StatusForbidden, "requests from pages of other sites are refused"
	case !s.knows(r):
		return http.StatusForbidden,
			"the token is missing or wrong: use the whole address that memlane serve printed, such as /api/info?token=..."
	}
	if why := wrongParameter(r.URL); why != "" {
		return http.StatusBadRequest, why
	}
	return 0, ""
}

// knows reports whether a request has the token. Other users of the machine reach the address, but do not know it.
func (s *Server) knows(r *http.Request) bool {
	if s.Token == "" {
		return true
	}
	given := r.URL.Query().Get("token")
	if cookie, err := r.Cookie(s.cookie().Name); err == nil && given == "" {
		given = cookie.Value
	}
	return equal(given, s.Token) || r.URL.Path == "/" && s.opensOnce(given)
}

// opensOnce reports whether a token is Once, and invalidates it.
func (s *Server) opensOnce(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Once == "" || !equal(token, s.Once) {
		return false
	}
	s.Once = ""
	return true
}

// equal takes the same time wherever the texts differ.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookie returns the cookie with the token. Its name differs by server, because browsers send the cookies of all
// servers on localhost. It is sent after a link to the page, but not with requests of foreign pages.
func (s *Server) cookie() *http.Cookie {
	sum := sha256.Sum256([]byte(s.Token))
	return &http.Cookie{Name: fmt.Sprintf("memlane-%x", sum[:4]), Value: s.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
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

// fromForeignPage reports whether the headers of a browser name a foreign page, even one on another port of this
// machine. Browsers prevent such pages from reading the answer, but not from sending the request. Links to the page are
// accepted from anywhere, because the linking page cannot read the new page. Programs without these headers, such as
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
