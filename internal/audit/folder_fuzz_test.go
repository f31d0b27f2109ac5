package audit

import (
	"bytes"
	"testing"
)

// What is read as a line is written as the same line, whatever it is.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"kind":"manifest","signed":"AAEC"}`))
	f.Add([]byte(`{"kind":"accepted-1-0","signed":"AA=="}`))
	f.Add([]byte(`{"signed":"AA==","kind":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseEntry(line)
		if err != nil {
			return
		}
		if again, err := appendEntry(nil, e); err != nil || !bytes.Equal(again, line) || len(line) > maxLine {
			t.Errorf("%q is read, and written as %q, %v", line, again, err)
		}
	})
}
