package main

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// joined is a wasm module of Go's linker with its data as one segment in place of up to 100,000. The linker leaves out
// every run of eight zeros, and most of its data is a table of functions (runtime.findfunctab) with few other bytes:
// what it writes for the places of the segments compresses far worse than the zeros do, by 0.1 MB.
func joined(module []byte) ([]byte, error) {
	const (
		header      = 8 // bytes
		dataSection = 11
	)
	if len(module) < header {
		return nil, errModule
	}
	out, rest := bytes.Clone(module[:header]), module[header:]
	for len(rest) > 0 {
		r := reader{b: rest[1:]}
		section := r.bytes(r.unsigned())
		if r.failed {
			return nil, errModule
		}
		if rest[0] == dataSection {
			var err error
			if section, err = oneSegment(section); err != nil {
				return nil, err
			}
		}
		out = append(binary.AppendUvarint(append(out, rest[0]), uint64(len(section))), section...)
		rest = r.b
	}
	return out, nil
}

var errModule = errors.New("the core is not as Go's linker writes a wasm module")

// oneSegment is a data section with the same bytes at the same places of memory.
func oneSegment(section []byte) ([]byte, error) {
	const mostMemory = 1 << 26 // bytes of data
	r := reader{b: section}
	var memory []byte
	first := 0
	for i := range r.unsigned() {
		if !bytes.Equal(r.bytes(2), []byte{0, i32Const}) { // into memory 0
			return nil, errModule
		}
		at := r.unsigned()
		if !bytes.Equal(r.bytes(1), []byte{end}) || at > mostMemory {
			return nil, errModule
		}
		content := r.bytes(r.unsigned())
		if i == 0 {
			first = at
		}
		if at < first {
			memory, first = append(make([]byte, first-at), memory...), at
		}
		if last := at - first + len(content); last > len(memory) {
			memory = append(memory, make([]byte, last-len(memory))...)
		}
		copy(memory[at-first:], content)
	}
	if r.failed || len(r.b) > 0 || first >= mostMemory {
		return nil, errModule
	}
	one := appendSigned([]byte{1, 0, i32Const}, first)
	one = binary.AppendUvarint(append(one, end), uint64(len(memory)))
	return append(one, memory...), nil
}

// Instructions of wasm.
const (
	i32Const = 0x41
	end      = 0x0b
)

// reader reads a module.
type reader struct {
	b      []byte
	failed bool
}

// unsigned is a number that is not negative, in LEB128. A signed one is written alike, with a zero more at times.
func (r *reader) unsigned() int {
	v, n := binary.Uvarint(r.b)
	if r.failed = r.failed || n < 1 || v >= 1<<31; r.failed {
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) bytes(n int) []byte {
	if r.failed = r.failed || len(r.b) < n; r.failed {
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// appendSigned appends a number that is not negative, in signed LEB128.
func appendSigned(b []byte, v int) []byte {
	for ; v >= 0x40; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}
