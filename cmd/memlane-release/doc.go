/*
Memlane-release builds what a release of memlane consists of, from the commit
that is checked out:

		go run ./cmd/memlane-release -o dist

	  - an archive for each platform with one static program, the licence, and the
	    licences of all that is in it;
	  - memlane_VERSION.cdx.json, the modules that are in it with versions, checksums
	    and licences (SBOM, in CycloneDX's format);
	  - SHA256SUMS of them all.

The same commit and version of Go give the same bytes, in whatever folder and on
whatever machine: paths are trimmed, files bear the time of the commit. The version
is that of the commit's tag (git tag v1.2.3), or what Go makes of a commit without
one. A checkout with changes is refused.

It refuses modules under licences that are not in allowed, too: the tests of this
package look at every module that the tree uses.
*/
package main
