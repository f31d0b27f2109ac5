package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// frame is one message of the protocol of NATS, in either direction.
type frame struct {
	all            []byte // as it came
	subject, reply string // of what is published or delivered; else empty
	head, header   int    // bytes of the line, and of the headers after it
}

// read reads a message: a line, and what it announces.
func read(r *bufio.Reader) (*frame, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	f := &frame{all: line, head: len(line)}
	words := bytes.Fields(line)
	if len(words) == 0 {
		return f, nil
	}
	sizes, skipped := 1, 0 // numbers at the line's end, and words between subject and reply
	switch string(bytes.ToUpper(words[0])) {
	case "PUB":
	case "HPUB":
		sizes = 2
	case "MSG":
		skipped = 1
	case "HMSG":
		sizes, skipped = 2, 1
	default:
		return f, nil
	}
	rest := words[1:]
	if len(rest) < 1+skipped+sizes {
		return nil, fmt.Errorf("a line of %d words", len(words))
	}
	f.subject = string(rest[0])
	if len(rest) > 1+skipped+sizes {
		f.reply = string(rest[1+skipped])
	}
	size, err := strconv.Atoi(string(rest[len(rest)-1]))
	if err != nil {
		return nil, err
	}
	if sizes == 2 {
		if f.header, err = strconv.Atoi(string(rest[len(rest)-2])); err != nil {
			return nil, err
		}
	}
	f.all = append(f.all, make([]byte, size+2)...)
	_, err = io.ReadFull(r, f.all[f.head:])
	return f, err
}

// parts are the headers and the payload.
func (f *frame) parts() (header string, payload []byte) {
	body := f.all[f.head : len(f.all)-2]
	return string(body[:f.header]), body[f.header:]
}
