package oomtext

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: all of them take a sixth of the start of a command, and most commands
// read no text.
type pattern func() *regexp.Regexp

func lazily(text string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
