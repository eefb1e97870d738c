//go:build parquet

package main

// Released programs write Parquet. Others have to be built with the tag parquet: the library of that one format takes a
// quarter of the time to build memlane, and 7 of 29 MB.
import _ "github.com/memlane/memlane/render/tables/parquet"
