package translog

import (
	"bytes"
	"testing"
)

// FuzzLogEntry reads any bytes as an entry of the log's file. What is read is written as the same bytes.
func FuzzLogEntry(f *testing.F) {
	f.Add(entry{"manifest", []byte("signed")}.encode())
	f.Add([]byte{})
	f.Add([]byte{255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			if e.kind != "" || e.signed != nil {
				t.Fatalf("%v, %v", e, err)
			}
			return
		}
		if again := e.encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
	})
}
