module github.com/weft-run/weft

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.2
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/transparency-dev/merkle v0.0.2
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	gonum.org/v1/gonum v0.16.0
	pgregory.net/rapid v1.2.0
)

require github.com/inconshreveable/mousetrap v1.1.0 // indirect
