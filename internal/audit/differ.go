package audit

import (
	"fmt"
	"math"
	"reflect"
)

// difference is how two values of one type differ.
type difference struct {
	path, reason string // of the first part that is no real number, or not there in both; empty: there is none
	// worst is the largest difference of two real numbers, relative to the larger of them, or in a vector to the
	// largest number of it; +Inf where one is not finite and the other is another. worstPath is where it is.
	worst     float64
	worstPath string
	want, got float64
}

// compare walks through two values of one type side by side. Slices without elements are the same, nil or not.
func compare(want, got any) difference {
	var d difference
	d.walk("", reflect.ValueOf(want), reflect.ValueOf(got))
	return d
}

func (d *difference) walk(path string, want, got reflect.Value) {
	if d.path != "" {
		return
	}
	differ := func(format string, v ...any) { d.path, d.reason = path, fmt.Sprintf(format, v...) }
	switch want.Kind() {
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			if want.IsNil() != got.IsNil() {
				differ("is there in one of them only")
			}
			return
		}
		d.walk(path, want.Elem(), got.Elem())
	case reflect.Struct:
		for i := range want.NumField() {
			at := want.Type().Field(i).Name
			if path != "" {
				at = path + "." + at
			}
			d.walk(at, want.Field(i), got.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if want.Len() != got.Len() {
			differ("has %d entries, must have %d", got.Len(), want.Len())
			return
		}
		scale := 0.0
		for i := range want.Len() {
			if want.Type().Elem().Kind() == reflect.Float64 {
				scale = math.Max(scale, math.Max(math.Abs(want.Index(i).Float()), math.Abs(got.Index(i).Float())))
			}
		}
		for i := range want.Len() {
			at := fmt.Sprintf("%s[%d]", path, i)
			if want.Type().Elem().Kind() == reflect.Float64 {
				d.number(at, want.Index(i).Float(), got.Index(i).Float(), scale)
			} else {
				d.walk(at, want.Index(i), got.Index(i))
			}
		}
	case reflect.Float64:
		w, g := want.Float(), got.Float()
		d.number(path, w, g, math.Max(math.Abs(w), math.Abs(g)))
	default:
		if !want.Equal(got) {
			differ("is %v, must be %v", got, want)
		}
	}
}

// number compares bits: a zero of the other sign is another number, as it is another byte of what is signed.
func (d *difference) number(path string, want, got, scale float64) {
	if math.Float64bits(want) == math.Float64bits(got) {
		return
	}
	relative := math.Abs(want-got) / scale
	if math.IsNaN(relative) || math.IsInf(scale, 0) {
		relative = math.Inf(1)
	}
	relative = math.Max(relative, math.SmallestNonzeroFloat64) // they differ
	if relative > d.worst {
		d.worst, d.worstPath, d.want, d.got = relative, path, want, got
	}
}
