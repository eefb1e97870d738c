package main

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// stores contains the open buckets of object stores, by address.
type stores struct {
	mu   sync.Mutex
	open map[string]*blob.Bucket
}

func (s *stores) bucket(ctx context.Context, address string) (*blob.Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.open[address]; b != nil {
		return b, nil
	}
	b, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, storeError(address, err)
	}
	if s.open == nil {
		s.open = map[string]*blob.Bucket{}
	}
	s.open[address] = b
	return b, nil
}

// folder returns the bucket of results or of a cache: a folder on this machine, which it creates, or one in an object
// store.
func folder(ctx context.Context, name string) (*blob.Bucket, error) {
	if !remote(name) {
		if err := os.MkdirAll(localPath(name), 0o777); err != nil {
			return nil, fail(statusFailed, "%s: %w", name, cause(err))
		}
	}
	return results(ctx, name)
}

// results returns the bucket of a folder that exists.
func results(ctx context.Context, name string) (*blob.Bucket, error) {
	if remote(name) {
		bucket, key, err := splitAddress(below(name, "_")) // adds a key, because name may be a whole bucket
		if err != nil {
			return nil, fail(statusUsage, "%w", err)
		}
		b, err := blob.OpenBucket(ctx, bucket) // not from s.open: PrefixedBucket ends it for all others
		if err != nil {
			return nil, storeError(bucket, err)
		}
		return blob.PrefixedBucket(b, strings.TrimSuffix(key, "_")), nil
	}
	dir, err := filepath.Abs(localPath(name))
	if err != nil {
		return nil, fail(statusFailed, "%s: %w", name, err)
	}
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fail(statusFailed, "%s: %w", name, cause(err))
	}
	return b, nil
}

// list returns the keys in a bucket that begin with prefix.
func (s *stores) list(ctx context.Context, address, prefix string) ([]string, error) {
	bucket, err := s.bucket(ctx, address)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(ctx, bucket, prefix)
	if err != nil {
		return nil, storeError(address, err)
	}
	return keys, nil
}

// keysOf returns the keys in an open bucket that begin with prefix.
func keysOf(ctx context.Context, bucket *blob.Bucket, prefix string) (keys []string, err error) {
	objects, err := objectsOf(ctx, bucket, &blob.ListOptions{Prefix: prefix})
	for _, object := range objects {
		if !object.IsDir {
			keys = append(keys, object.Key)
		}
	}
	return keys, err
}

func objectsOf(ctx context.Context, bucket *blob.Bucket, which *blob.ListOptions) (objects []*blob.ListObject, err error) {
	err = retry(ctx, func() error {
		objects = objects[:0]
		for each := bucket.List(which); ; {
			object, err := each.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			objects = append(objects, object)
		}
	})
	return objects, err
}

// rangeSize is the size of a request in bytes: the most that a broken connection loses.
const rangeSize = 8 << 20

// fetch copies an object of size bytes to a file and to sum. It requests each byte once, and
// again only bytes that the store failed to send.
func fetch(ctx context.Context, bucket *blob.Bucket, key string, size int64, to *os.File, sum hash.Hash) error {
	for done := int64(0); done < size; {
		err := retry(ctx, func() error {
			ctx, cancel := context.WithTimeout(ctx, longest) // a store may fall silent
			defer cancel()
			r, err := bucket.NewRangeReader(ctx, key, done, min(rangeSize, size-done), nil)
			if err != nil {
				return err
			}
			defer r.Close()
			if r.Size() != size {
				return backoff.Permanent(errChanged)
			}
			n, err := io.Copy(io.MultiWriter(diskWriter{to}, sum), r)
			done += n
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errChanged is the error of an object that was overwritten during fetch.
var errChanged = errors.New("it changed while it was read; wait until it is complete")

// diskWriter writes to a file. Its errors, such as a full disk, are not retried.
type diskWriter struct{ *os.File }

func (d diskWriter) Write(b []byte) (int, error) {
	n, err := d.File.Write(b)
	if err != nil {
		err = backoff.Permanent(fmt.Errorf("%w; set TMPDIR to a folder with free space", err))
	}
	return n, err
}

// attempts is how often a request is tried, with pauses from firstPause on, each about twice as long as the last.
const (
	attempts   = 7
	firstPause = 100 * time.Millisecond
)

// retry calls do until it succeeds, fails permanently, or has failed attempts times.
func retry(ctx context.Context, do func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier = firstPause, 2
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		switch gcerrors.Code(err) {
		case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.FailedPrecondition,
			gcerrors.Unimplemented, gcerrors.Canceled:
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(attempts), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return permanent.Unwrap()
	}
	return err
}

// storeError returns an error with the address of the store and a hint.
func storeError(address string, err error) error {
	if _, ended := errors.AsType[*statusError](err); ended {
		return err
	}
	bucket, _, _ := strings.Cut(address, "?")
	hint := "check the address and whether the store is reachable"
	if gcerrors.Code(err) == gcerrors.PermissionDenied {
		hint = "check the credentials and their permissions"
	}
	return fail(statusFailed, "%s: %w; %s", bucket, cause(err), hint)
}

// cause returns the error of the operating system inside err, or err if there is none.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// secret matches credentials in texts: user names and passwords in addresses, signatures and tokens in their options.
var secret = regexp.MustCompile(`(?i)(://)[^/\s@]+@|([?&;](?:[a-z0-9-]*(?:sig|signature|token|credential|secret|password|key)[a-z0-9_-]*)=)[^&\s"]+`)

// secretVariables are the names of environment variables that hold credentials.
var secretVariables = []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID",
	"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"}

// withoutSecrets returns text without credentials: error messages of stores may contain any part of a request.
func withoutSecrets(text string) string {
	for _, name := range secretVariables {
		if value := os.Getenv(name); len(value) >= 8 {
			text = strings.ReplaceAll(text, value, "…")
			text = strings.ReplaceAll(text, url.QueryEscape(value), "…")
		}
	}
	return secret.ReplaceAllString(text, "$1$2…")
}
