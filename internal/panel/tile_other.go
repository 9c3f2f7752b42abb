//go:build !amd64 && !arm64

package panel

func sumProductSIMD() []*Kernel { return nil }

func maxPlusSIMD() []*Kernel { return nil }
