#!/bin/bash -eu
# Builds all fuzz targets for OSS-Fuzz (https://google.github.io/oss-fuzz/getting-started/new-project-guide/go-lang/), with
# captures of testdata as seeds and a dictionary for each format. OSS-Fuzz sets OUT and has compile_native_go_fuzzer_v2.
cd "$(dirname "$0")/../.."
here=$PWD/.ci/oss-fuzz

# The compiler of targets replaces a file of the standard library. Go refuses that in a toolchain that it downloaded itself, because go.mod
# needs a newer one than OSS-Fuzz has.
goroot=$(go env GOROOT)
case $goroot in
  "$(go env GOMODCACHE)"/*)
    GOROOT=$(mktemp -d)
    cp -r "$goroot/." "$GOROOT"
    chmod -R u+w "$GOROOT"
    export GOROOT GOTOOLCHAIN=local PATH=$GOROOT/bin:$PATH
    ;;
esac

# Captures that a target reads, and its dictionary, by its package.
seeds() {
  case $1 in
    formats) echo 'testdata/torchsnap/*.pickle testdata/xplane/*.pb testdata/chrome/*.json.gz testdata/oomtext/*' ;;
    */torchsnap | */pickle) echo 'testdata/torchsnap/*.pickle' ;;
    */chrometrace | */scan) echo 'testdata/chrome/*.json.gz' ;;
    */gpumemprof) echo 'testdata/gpumemprof/*.json' ;;
    */xplane) echo 'testdata/xplane/*.xplane.pb' ;;
    */hlo) echo 'testdata/xplane/*.hlo.pb testdata/hlotext/proto/*.pb testdata/hlotext/text/*' ;;
    */jaxprof) echo 'testdata/jaxprof/*.prof' ;;
    */oomtext) echo 'testdata/oomtext/*' ;;
    */native) echo 'testdata/*/*.native' ;;
  esac
}
dictionary() {
  case $1 in
    */torchsnap | */pickle) echo pickle ;;
    */chrometrace | */scan | */gpumemprof) echo json ;;
    */oomtext | */native | formats) echo text ;;
  esac
}

go list -f '{{.Dir}}' ./... | while read -r dir; do
  package=${dir#"$PWD/"}
  grep -hoE '^func Fuzz[A-Za-z]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | while read -r target; do
    name=$(echo "$package" | tr / _)_$target
    compile_native_go_fuzzer_v2 "github.com/memlane/memlane/$package" "$target" "$name"
    captures=$(seeds "$package")
    if [ -n "$captures" ]; then
      # shellcheck disable=SC2086 # patterns
      python3 - "$OUT/${name}_seed_corpus.zip" $captures <<'END'
import gzip, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as seeds:
    for n, file in enumerate(sys.argv[2:]):
        data = open(file, "rb").read()
        seeds.writestr(str(n), gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
END
    fi
    words=$(dictionary "$package")
    if [ -n "$words" ]; then cp "$here/$words.dict" "$OUT/$name.dict"; fi
  done
done
