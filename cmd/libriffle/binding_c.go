//go:build cgo

package main

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
	int64_t handle;
	void *data;
	size_t size;
	char *error, *reason;
} riffle_result;
*/
import "C"

import (
	"bytes"
	"time"
	"unsafe"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func main() {} // never runs in a library

// riffle_open opens a device. The result has the handle.
//
//export riffle_open
func riffle_open(text *C.char, saved unsafe.Pointer, size C.size_t) C.riffle_result {
	var handle int64
	out := result(func() (_ any, err error) {
		if size > wire.MaxStatement { // which would be taken for nothing, a new device
			return nil, device.ErrSaved
		}
		handle, err = open(C.GoString(text), taken(saved, size), nil)
		return nil, err
	})
	out.handle = C.int64_t(handle)
	return out
}

// riffle_public returns the public half of a seed.
//
//export riffle_public
func riffle_public(seed unsafe.Pointer, size C.size_t) C.riffle_result {
	return result(func() (any, error) { return public(taken(seed, size)) })
}

//export riffle_close
func riffle_close(handle C.int64_t) { closed(int64(handle)) }

// riffle_free gives back what a result points to.
//
//export riffle_free
func riffle_free(r C.riffle_result) {
	C.free(r.data)
	C.free(unsafe.Pointer(r.error))
	C.free(unsafe.Pointer(r.reason))
}

//export riffle_save
func riffle_save(handle C.int64_t) C.riffle_result { return of(handle, "save", arguments{}) }

//export riffle_status
func riffle_status(handle C.int64_t) C.riffle_result { return of(handle, "status", arguments{}) }

//export riffle_follow
func riffle_follow(handle C.int64_t, statement unsafe.Pointer, size C.size_t, now C.int64_t) C.riffle_result {
	return of(handle, "follow", arguments{statement: taken(statement, size), now: moment(now)})
}

//export riffle_begin
func riffle_begin(handle C.int64_t, proof *C.char, statement unsafe.Pointer, size C.size_t) C.riffle_result {
	return of(handle, "begin", arguments{text: C.GoString(proof), statement: taken(statement, size)})
}

//export riffle_keys
func riffle_keys(handle C.int64_t, statement unsafe.Pointer, size C.size_t) C.riffle_result {
	return of(handle, "keys", arguments{statement: taken(statement, size)})
}

//export riffle_register
func riffle_register(handle C.int64_t) C.riffle_result { return of(handle, "register", arguments{}) }

//export riffle_registered
func riffle_registered(handle C.int64_t, reply unsafe.Pointer, size C.size_t) C.riffle_result {
	return of(handle, "registered", arguments{statement: taken(reply, size)})
}

//export riffle_enrol
func riffle_enrol(handle C.int64_t, now C.int64_t) C.riffle_result {
	return of(handle, "enrol", arguments{now: moment(now)})
}

//export riffle_answer
func riffle_answer(handle C.int64_t, reply unsafe.Pointer, size C.size_t, now C.int64_t) C.riffle_result {
	return of(handle, "answer", arguments{statement: taken(reply, size), now: moment(now)})
}

//export riffle_decide
func riffle_decide(handle C.int64_t, arms *C.char) C.riffle_result {
	return of(handle, "decide", arguments{text: C.GoString(arms)})
}

//export riffle_encode
func riffle_encode(handle C.int64_t, question *C.char) C.riffle_result {
	return of(handle, "encode", arguments{text: C.GoString(question)})
}

//export riffle_reward
func riffle_reward(handle C.int64_t, decision C.uint64_t, reward C.double, now C.int64_t) C.riffle_result {
	return of(handle, "reward", arguments{decision: uint64(decision), reward: float64(reward), now: moment(now)})
}

//export riffle_forget
func riffle_forget(handle C.int64_t) C.riffle_result { return of(handle, "forget", arguments{}) }

//export riffle_report
func riffle_report(handle C.int64_t, now C.int64_t) C.riffle_result {
	return of(handle, "report", arguments{now: moment(now)})
}

//export riffle_deposit
func riffle_deposit(handle C.int64_t, now C.int64_t) C.riffle_result {
	return of(handle, "deposit", arguments{now: moment(now)})
}

//export riffle_deposited
func riffle_deposited(handle C.int64_t) C.riffle_result { return of(handle, "deposited", arguments{}) }

func of(handle C.int64_t, name string, a arguments) C.riffle_result {
	return result(func() (any, error) { return ask(int64(handle), name, a) })
}

// result makes what C gets of what f returns.
func result(f func() (any, error)) (out C.riffle_result) {
	var v any
	err := guarded(func() (err error) {
		v, err = f()
		return err
	})
	if err != nil {
		out.error, out.reason = C.CString(err.Error()), C.CString(reasonOf(err))
		return out
	}
	b, raw := v.([]byte)
	if text, ok := v.(string); ok && !raw {
		b = []byte(text)
	}
	if len(b) > 0 {
		out.data, out.size = C.CBytes(b), C.size_t(len(b))
	}
	return out
}

// taken copies what the caller passed; more than any statement has is nothing.
func taken(p unsafe.Pointer, size C.size_t) []byte {
	if p == nil || size > wire.MaxStatement {
		return nil
	}
	return bytes.Clone(unsafe.Slice((*byte)(p), int(size)))
}

func moment(ms C.int64_t) time.Time { return time.UnixMilli(int64(ms)).UTC() }
