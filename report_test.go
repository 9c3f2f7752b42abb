package weft

import (
	"reflect"
	"testing"
	"time"

	"github.com/weft-run/weft/trace"
)

// A field of trace.Report that Runtime.report forgets is zero in every report.
func TestReportHasAllFields(t *testing.T) {
	in := trace.Report{Devices: []trace.DeviceReport{{Tasks: 1, Busy: time.Second}}}
	v := reflect.ValueOf(&in).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInt() {
			f.SetInt(int64(i + 1))
		}
	}
	out := reflect.ValueOf((&Runtime{}).report(&in)).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if f := out.FieldByName(name); !f.IsValid() || !reflect.DeepEqual(f.Interface(), v.Field(i).Interface()) {
			t.Errorf("field %s of a run's report is lost", name)
		}
	}
}
