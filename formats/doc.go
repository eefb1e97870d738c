// Package formats opens captures: it decompresses a file, detects its format and reads it into a lifetime.Capture.
//
// It is the first step of the pipeline. Each format has a folder below and a line
// in [All]. Readers import lifetime, but not each other.
package formats
