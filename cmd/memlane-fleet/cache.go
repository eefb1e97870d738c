package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
)

// cache keeps records by the content of their captures and by the program that made them. An interrupted run can
// continue, and copies of a capture are read once. Records in it have no name. A nil cache is always empty.
type cache struct {
	bucket  *blob.Bucket
	program string // its SHA-256: another version may make other records
}

func openCache(ctx context.Context, name string) (*cache, error) {
	bucket, err := folder(ctx, name)
	if err != nil {
		return nil, err
	}
	program, err := programSum()
	if err != nil {
		return nil, fail(statusFailed, "--cache: cannot read this program: %w", err)
	}
	return &cache{bucket, program}, nil
}

func programSum() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

func (c *cache) recordKey(content string) string {
	return fmt.Sprintf("%s/records/%s/%s", c.program, content[:2], content)
}

// versionKey returns the key of a version of an object, made from the tag of the store.
func (c *cache) versionKey(name string, a *blob.Attributes) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", name, a.ETag, a.Size))
	version := hex.EncodeToString(sum[:])
	return fmt.Sprintf("%s/versions/%s/%s", c.program, version[:2], version)
}

// get returns the record of a content, nil if there is none or it is damaged.
func (c *cache) get(ctx context.Context, content string) (*fleet.Record, error) {
	if c == nil {
		return nil, nil
	}
	data, err := c.read(ctx, c.recordKey(content))
	if data == nil || err != nil {
		return nil, err
	}
	r, err := unpack(data)
	if err != nil || r.Content != content { // damaged: make it again
		return nil, nil
	}
	return r, nil
}

// contentOf returns the content of a version of an object, "" if it is unknown.
func (c *cache) contentOf(ctx context.Context, name string, a *blob.Attributes) (string, error) {
	if c == nil || a.ETag == "" {
		return "", nil
	}
	content, err := c.read(ctx, c.versionKey(name, a))
	if len(content) != 2*sha256.Size {
		return "", err
	}
	return string(content), err
}

func (c *cache) putVersion(ctx context.Context, name string, a *blob.Attributes, content string) error {
	if c == nil || a.ETag == "" {
		return nil
	}
	return c.write(ctx, c.versionKey(name, a), []byte(content))
}

func (c *cache) put(ctx context.Context, r *fleet.Record) error {
	if c == nil {
		return nil
	}
	return c.write(ctx, c.recordKey(r.Content), pack(r))
}

// read returns the data of a key, nil if there is none, or more than a record can have.
func (c *cache) read(ctx context.Context, key string) (data []byte, err error) {
	err = retry(ctx, func() error {
		r, err := c.bucket.NewRangeReader(ctx, key, 0, maxRecord+1, nil)
		if err != nil {
			return err
		}
		defer r.Close()
		if data = nil; r.Size() > maxRecord {
			return nil
		}
		data, err = io.ReadAll(r)
		return err
	})
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound, len(data) > maxRecord:
		return nil, nil
	case err != nil:
		return nil, storeError("--cache", err)
	}
	return data, nil
}

// write stores data under a key. If it fails, it stores nothing.
func (c *cache) write(ctx context.Context, key string, data []byte) error {
	if err := retry(ctx, func() error { return c.bucket.WriteAll(ctx, key, data, nil) }); err != nil {
		return storeError("--cache", err)
	}
	return nil
}

// maxRecord bounds a record, in bytes, also when it is not packed.
const maxRecord = 256 << 20

// maxName is room for the name and the rank that a record gets later, in bytes.
const maxName = 1 << 20

var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxRecord))
)

// pack encodes a record for the cache and for the lines of map.
func pack(r *fleet.Record) []byte { return packer.EncodeAll(plain(r), nil) }

func plain(r *fleet.Record) []byte {
	var one fleet.Fleet
	one.Add(r)
	return one.AppendBinary(nil)
}

// bounded returns a record that unpack accepts: r, or its refusal if it has more than limit bytes.
func bounded(r *fleet.Record, limit int) *fleet.Record {
	if len(plain(r)) <= limit {
		return r
	}
	return refused(r.Content, fmt.Errorf("its summary has more than %d MiB: it names too many places or devices", limit>>20))
}

func unpack(data []byte) (*fleet.Record, error) {
	one := &fleet.Fleet{}
	if err := addPacked(one, data); err != nil {
		return nil, err
	}
	if r := one.Record(""); r != nil {
		return r, nil
	}
	return nil, errors.New("no record found")
}

func addPacked(all *fleet.Fleet, data []byte) error {
	plain, err := unpacker.DecodeAll(data, nil)
	if err != nil {
		return fmt.Errorf("damaged record (%w)", err)
	}
	return all.ReadBinary(plain)
}
