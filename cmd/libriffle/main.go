//go:build cgo

// Command libriffle is pkg/device as a C library, for bindings of other languages:
//
//	go build -buildmode=c-shared -o libriffle.so ./cmd/libriffle
//
// writes libriffle.so and libriffle.h. The library holds one device per handle and does what pkg/device does. It
// touches no network, file or clock: the caller carries the bytes, passes the time, and keeps what riffle_save returns.
// Randomness is the system's.
//
// # Calls
//
// A handle is an integer above 0. Every call takes one and returns a riffle_result, and so does riffle_open:
//
//	typedef struct { int64_t handle; void *data; size_t size; char *error; } riffle_result;
//
// error is NULL where the call succeeded, else a sentence that ends in a zero byte and names no value of a record; data
// and handle are then zero. data holds size bytes: JSON, or bytes of the wire (a request, an envelope). Times are
// milliseconds since 1970 in UTC. Calls with one handle wait for each other; calls with different handles do not.
//
// # Memory
//
// The caller owns what it passes: the library copies it and keeps no pointer. The caller owns what a result points to
// and gives it back with one call of riffle_free, whether the call succeeded or failed. riffle_close forgets a device
// and wipes its record.
//
// # What it guarantees, and what not
//
// No panic crosses the boundary: it becomes an error without its text, which could hold a record. Beyond that the
// guarantees and limits are those of pkg/device. The library cannot overwrite the caller's own copies of arms and
// rewards.
package main

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
	int64_t handle;
	void *data;
	size_t size;
	char *error;
} riffle_result;
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/seal"
)

func main() {} // never runs in a library

// A stack trace shows arguments, and arguments are records.
func init() { debug.SetTraceback("none") }

// one is a device and its lock.
type one struct {
	mu     sync.Mutex
	device *device.Device
}

var (
	devices sync.Map // handle -> *one
	handles atomic.Int64
)

// riffle_open opens a device: config is JSON that ends in a zero byte, saved what riffle_save returned, size 0 for a
// new device. The result has the handle.
//
//export riffle_open
func riffle_open(text *C.char, saved unsafe.Pointer, size C.size_t) C.riffle_result {
	var handle int64
	out := result(func() (any, error) {
		c, err := readConfig(C.GoString(text))
		if err != nil {
			return nil, err
		}
		identity, err := seal.NewIdentity(c.Identity)
		if err != nil {
			return nil, fmt.Errorf("config: identity: %w", err)
		}
		d, err := device.Open(device.Config{
			Deployment: c.Deployment, Analyzer: c.Analyzer, Shuffler: c.Shuffler, Identity: identity,
			Credential: c.Credential,
			Limits:     c.Limits,
		}, c.Number, taken(saved, size))
		if err == nil {
			handle = handles.Add(1)
			devices.Store(handle, &one{device: d})
		}
		return nil, err
	})
	out.handle = C.int64_t(handle)
	return out
}

// riffle_close forgets a device and wipes its record. A handle that is closed already is no error.
//
//export riffle_close
func riffle_close(handle C.int64_t) {
	if v, ok := devices.LoadAndDelete(int64(handle)); ok {
		o := v.(*one)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.device.Close()
	}
}

// riffle_free gives back what a result points to.
//
//export riffle_free
func riffle_free(r C.riffle_result) {
	C.free(r.data)
	C.free(unsafe.Pointer(r.error))
}

// riffle_save returns what must be durable before anything that an earlier call returned leaves the machine.
//
//export riffle_save
func riffle_save(handle C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Save() })
}

// riffle_status returns the device's status as JSON. Nothing in it depends on a record.
//
//export riffle_status
func riffle_status(handle C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Status(), nil })
}

// riffle_follow takes the next signed announcement. The result is {"fresh": whether it is now in force}.
//
//export riffle_follow
func riffle_follow(handle C.int64_t, statement unsafe.Pointer, size C.size_t, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		fresh, err := d.Follow(taken(statement, size), moment(now))
		return map[string]bool{"fresh": fresh}, err
	})
}

// riffle_keys takes a signed set of the shuffler's keys.
//
//export riffle_keys
func riffle_keys(handle C.int64_t, statement unsafe.Pointer, size C.size_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return nil, d.Keys(taken(statement, size)) })
}

// riffle_register returns the request to be registered, where panels are drawn from registered devices. Call it once
// the device follows the deployment, and again where no answer came.
//
//export riffle_register
func riffle_register(handle C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Register() })
}

// riffle_registered takes the shuffler's signed reply to riffle_register. The result is {"registered",
// "refusal", "again"}; again says that it is no answer.
//
//export riffle_registered
func riffle_registered(handle C.int64_t, reply unsafe.Pointer, size C.size_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		refusal, again, err := d.Registered(taken(reply, size))
		return map[string]any{"registered": refusal == "", "refusal": refusal, "again": again}, err
	})
}

// riffle_enrol returns the request for a slot in the cohort. Call it before the arms of the decision are known. Where
// panels are drawn it asks whether the device is in the epoch's: call it whenever riffle_follow says that an
// announcement is fresh, at a time that depends on nothing that the person does.
//
//export riffle_enrol
func riffle_enrol(handle C.int64_t, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Enrol(moment(now)) })
}

// riffle_answer takes the shuffler's signed reply. The result is {"enrolled", "report_at", "refusal", "again"}.
//
//export riffle_answer
func riffle_answer(handle C.int64_t, reply unsafe.Pointer, size C.size_t, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Answer(taken(reply, size), moment(now)) })
}

// riffle_decide decides between arms, a JSON list of lists of numbers that ends in a zero byte, or {"arms": that list,
// "default": index, "exclude": [index, ...]}: the arm that is played today, else the first, and arms that must not be
// played. The caller excludes arms whose limit in the schema is reached. The result is {"arm",
// "epoch", "propensity", "sampled"}.
//
//export riffle_decide
func riffle_decide(handle C.int64_t, arms *C.char) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		set, of, err := readArms(C.GoString(arms))
		if err != nil {
			return nil, err
		}
		return d.DecideFor(set, of, entropy.New())
	})
}

// riffle_decide_for is riffle_decide with what an app may say of the arms: choice is JSON that ends in a zero byte,
// {"default": index of the arm that is played today, "exclude": [indices of arms that must not be played]}. Where
// panels are drawn, the result of a decision that the device reports on has a "handle" for riffle_reward_of.
//
//export riffle_decide_for
func riffle_decide_for(handle C.int64_t, arms, choice *C.char) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		set, of, err := readArmsAndChoice(C.GoString(arms), C.GoString(choice))
		if err != nil {
			return nil, err
		}
		return d.DecideFor(set, of, entropy.New())
	})
}

// riffle_encode makes vectors of arms, for riffle_decide, as the announced schema of features says. What is asked is
// JSON that ends in a zero byte: {"context": {name: value, ...}, "arms": [{"id": text, name: value, ...}, ...]}. The
// result is the vectors as a JSON list of lists of numbers, in the order of the arms.
//
//export riffle_encode
func riffle_encode(handle C.int64_t, question *C.char) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		about, err := readAsked(C.GoString(question))
		if err != nil {
			return nil, err
		}
		return d.Encode(about.Context, about.Arms)
	})
}

// riffle_reward takes the reward of the decision. The result is {"accepted", "clipped", "used", "range"}.
//
//export riffle_reward
func riffle_reward(handle C.int64_t, reward C.double, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Reward(float64(reward), moment(now)) })
}

// riffle_reward_of takes the reward of one decision, where panels are drawn, by the handle that riffle_decide or
// riffle_decide_for gave it. The result is that of riffle_reward.
//
//export riffle_reward_of
func riffle_reward_of(handle C.int64_t, decision C.uint64_t, reward C.double, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) {
		return d.RewardOf(uint64(decision), float64(reward), moment(now))
	})
}

// riffle_report returns the sealed report that is due. Keep it with what riffle_save returns, and send the same bytes
// until the broker has them.
//
//export riffle_report
func riffle_report(handle C.int64_t, now C.int64_t) C.riffle_result {
	return with(handle, func(d *device.Device) (any, error) { return d.Report(moment(now), entropy.New()) })
}

// with calls f with the device of a handle, alone.
func with(handle C.int64_t, f func(*device.Device) (any, error)) C.riffle_result {
	return result(func() (any, error) {
		v, ok := devices.Load(int64(handle))
		if !ok {
			return nil, fmt.Errorf("%d is the handle of no device", int64(handle))
		}
		o := v.(*one)
		o.mu.Lock()
		defer o.mu.Unlock()
		return f(o.device)
	})
}

// result makes what C gets of what f returns: bytes as they are, anything else as JSON. A panic becomes an error.
func result(f func() (any, error)) (out C.riffle_result) {
	defer func() {
		if recover() != nil {
			out = C.riffle_result{error: C.CString("the library failed; the device of this handle should be closed")}
		}
	}()
	v, err := f()
	if err != nil {
		out.error = C.CString(err.Error())
		return out
	}
	b, raw := v.([]byte)
	if !raw && v != nil {
		if b, err = json.Marshal(v); err != nil {
			out.error = C.CString(err.Error())
			return out
		}
	}
	if len(b) > 0 {
		out.data, out.size = C.CBytes(b), C.size_t(len(b))
	}
	return out
}

// taken copies what the caller passed.
func taken(p unsafe.Pointer, size C.size_t) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(p), int(size)))
}

func moment(ms C.int64_t) time.Time { return time.UnixMilli(int64(ms)).UTC() }
