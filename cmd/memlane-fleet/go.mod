module github.com/memlane/memlane/cmd/memlane-fleet

go 1.26.0

require github.com/memlane/memlane v0.0.0

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/johannesboyne/gofakes3 v1.2.0 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/ryszard/goskiplist v0.0.0-20150312221310-2dfbae5fcf46 // indirect
	github.com/urfave/cli/v2 v2.27.7 // indirect
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // indirect
	go.shabbyrobe.org/gocovmerge v0.0.0-20230507111327-fa4f82cfbf4d // indirect
	gocloud.dev v0.47.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)

replace github.com/memlane/memlane => ../..
