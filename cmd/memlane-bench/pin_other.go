//go:build !linux

package main

// pinned says on what commands run.
const pinned = "not bound to a processor, which only Linux allows"

func pin() func() { return func() {} }
