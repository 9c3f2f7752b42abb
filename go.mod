module github.com/weft-run/weft

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.2
	github.com/transparency-dev/merkle v0.0.2
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	gonum.org/v1/gonum v0.17.0
	pgregory.net/rapid v1.2.0
)
