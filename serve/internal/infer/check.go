package infer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-run/weft"
)

// Check reads the models of a folder as a service on a runtime does, and returns what is wrong with them in one line. They
// are put on no device.
func Check(ctx context.Context, rt *weft.Runtime, o Options) error {
	found, err := Names(o.Folder)
	if err != nil || o.Folder == "" {
		return err
	}
	s := &Service{rt: rt, o: o}
	var errs []error
	for _, name := range found {
		folders, err := s.folders(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("model %s: %w", name, err))
		}
		for _, number := range slices.SortedFunc(maps.Keys(folders), byNumber) {
			v := &version{name: name, number: number}
			if err := s.read(ctx, v, folders[number]); err != nil {
				errs = append(errs, fmt.Errorf("model %s: %w", name, err))
				continue
			}
			v.release()
		}
	}
	return inOneLine(errs)
}
