//go:build !linux

package disk

import "os"

const (
	directFlag = 0
	readFlags  = 0
)

func refusesDirect(error) bool      { return false }
func reserve(*os.File, int64) error { return nil }
func flush(f *os.File) error        { return f.Sync() }

// preferLarge does nothing: pages are as large as the system chooses.
func preferLarge([]byte) {}
