//go:build !linux

package main

// pinned describes on which processors commands run.
const pinned = "not bound to a processor, which only Linux allows"

func pin() func() { return func() {} }
