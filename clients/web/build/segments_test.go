package main

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// segment is bytes at a place of memory.
type segment struct {
	at      int
	content string
}

// module is a wasm module with a section before its data and one behind.
func module(segments ...segment) []byte {
	data := binary.AppendUvarint(nil, uint64(len(segments)))
	for _, s := range segments {
		data = append(appendSigned(append(data, 0, i32Const), s.at), end)
		data = append(binary.AppendUvarint(data, uint64(len(s.content))), s.content...)
	}
	b := append([]byte("\x00asm\x01\x00\x00\x00"), 5, 3, 1, 0, 1)
	b = append(binary.AppendUvarint(append(b, 11), uint64(len(data))), data...)
	return append(b, 0, 2, 1, 'x')
}

func TestSegmentsAreJoinedWhereTheyAre(t *testing.T) {
	for name, c := range map[string]struct{ of, want []segment }{
		"one":          {[]segment{{100, "ab"}}, []segment{{100, "ab"}}},
		"two":          {[]segment{{100, "ab"}, {105, "c"}}, []segment{{100, "ab\x00\x00\x00c"}}},
		"any order":    {[]segment{{105, "c"}, {100, "ab"}, {103, "d"}}, []segment{{100, "ab\x00d\x00c"}}},
		"a later wins": {[]segment{{100, "abc"}, {101, "d"}}, []segment{{100, "adc"}}},
		"large numbers": {[]segment{{1 << 20, "a"}, {1<<20 + 64, "b"}}, []segment{
			{1 << 20, "a" + string(make([]byte, 63)) + "b"}}},
	} {
		got, err := joined(module(c.of...))
		if want := module(c.want...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
		if again, err := joined(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: a second time it is %q, %v", name, again, err)
		}
	}
	whole := module(segment{100, "ab"}, segment{105, "c"})
	for n := range len(whole) {
		if n == 8 || n == 13 || n == len(whole)-4 { // ends of sections
			continue
		}
		if _, err := joined(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were joined", n, len(whole))
		}
	}
}
