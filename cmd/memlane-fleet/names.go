package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memlane/memlane/formats"
)

// longestName is the longest name of a capture in bytes. Stores allow 1000, disks 4000.
const longestName = 64 << 10

// namesOf returns the captures of a command line, sorted, without duplicates. Without
// arguments it reads them from standard input, where names are not patterns.
func namesOf(ctx context.Context, args []string, stdin io.Reader, in *stores) (names []string, err error) {
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		lines := bufio.NewScanner(stdin)
		lines.Buffer(nil, longestName)
		for lines.Scan() {
			if name := strings.TrimSuffix(lines.Text(), "\r"); name != "" {
				names = append(names, localPath(name))
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fail(statusFailed, "the list of captures on standard input: %w", err)
		}
	} else {
		for _, arg := range args {
			found, err := expand(ctx, arg, in)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// expand returns the captures that match an argument.
func expand(ctx context.Context, arg string, in *stores) ([]string, error) {
	if !remote(arg) {
		found, err := formats.Expand([]string{localPath(arg)})
		if err != nil {
			return nil, fail(statusUsage, "%w", err)
		}
		return found, nil
	}
	bucket, pattern, err := splitAddress(arg)
	if err != nil {
		return nil, fail(statusUsage, "%w", err)
	}
	first := strings.IndexAny(pattern, "*?[")
	if first < 0 {
		return []string{arg}, nil
	}
	keys, err := in.list(ctx, bucket, pattern[:first])
	if err != nil {
		return nil, err
	}
	var found []string
	for _, key := range keys {
		ok, err := path.Match(pattern, key)
		if err != nil {
			return nil, fail(statusUsage, "%s: a [ in the pattern has no ]", shownName(arg))
		}
		if ok {
			found = append(found, address(bucket, key))
		}
	}
	if len(found) == 0 {
		return nil, fail(statusUsage, "%s: no capture matches the pattern", shownName(arg))
	}
	return found, nil
}

// remote reports whether a name is an address in an object store.
func remote(name string) bool {
	return strings.Contains(name, "://") && !strings.HasPrefix(name, "file://")
}

// localPath returns the path of a file, also if it is given as file:///path.
func localPath(name string) string {
	rest, ok := strings.CutPrefix(name, "file://")
	if !ok {
		return name
	}
	if plain, err := url.PathUnescape(rest); err == nil {
		return plain
	}
	return rest
}

// splitAddress splits s3://bucket/key?options into s3://bucket?options and the key.
func splitAddress(address string) (bucket, key string, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	options := ""
	if i := strings.LastIndexByte(rest, '?'); i >= 0 && strings.Contains(rest[i:], "=") { // otherwise it belongs to a pattern
		rest, options = rest[:i], rest[i:]
	}
	name, key, _ := strings.Cut(rest, "/")
	if name == "" || key == "" {
		return "", "", fmt.Errorf("%s: not the address of a capture, for example s3://bucket/job/rank0.pickle", address)
	}
	return scheme + "://" + name + options, key, nil
}

// below returns the name of a subfolder, on a disk or in a store.
func below(folder, name string) string {
	if !remote(folder) {
		return filepath.Join(localPath(folder), name)
	}
	folder, options, ok := strings.Cut(folder, "?")
	if folder = strings.TrimSuffix(folder, "/") + "/" + name; ok {
		folder += "?" + options
	}
	return folder
}

// address is the inverse of splitAddress.
func address(bucket, key string) string {
	bucket, options, ok := strings.Cut(bucket, "?")
	if ok {
		return bucket + "/" + key + "?" + options
	}
	return bucket + "/" + key
}

// shownName returns the name of a capture for results: an address without options and credentials.
func shownName(name string) string {
	bucket, key, err := splitAddress(name)
	if !remote(name) || err != nil {
		return name
	}
	bucket, _, _ = strings.Cut(bucket, "?")
	scheme, host, _ := strings.Cut(bucket, "://")
	return scheme + "://" + host[strings.LastIndex(host, "@")+1:] + "/" + key
}
