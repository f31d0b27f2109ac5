package cohort

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// The set of devices is a set.
func TestDevicesAreASet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all, model := newDevices(), map[DeviceID]bool{}
		draw := rapid.Custom(func(rt *rapid.T) DeviceID {
			near := rapid.Uint32Range(pageBits-2, pageBits+2)
			number := rapid.OneOf(rapid.Uint32Range(0, 130), near, rapid.Uint32()).Draw(rt, "number")
			return DeviceID{Host: [32]byte{rapid.Byte().Draw(rt, "host") % 3}, Number: number}
		})
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			id := draw.Draw(rt, "device")
			if all.has(id) != model[id] {
				rt.Fatalf("%v is in the set: %v", id, all.has(id))
			}
			if rapid.Bool().Draw(rt, "add") {
				all.add(id)
				model[id] = true
			}
		}
		for id := range model {
			if !all.has(id) {
				rt.Fatalf("%v is lost", id)
			}
			if near := (DeviceID{id.Host, id.Number ^ 64}); all.has(near) != model[near] {
				rt.Fatalf("%v came with %v", near, id)
			}
		}
	})
}

// What a device costs in memory for ever. A map of devices took 90 bytes.
func TestADeviceTakesLittleMemory(t *testing.T) {
	const hosts, each = 16, 1 << 17
	if bytes := heapOf(func(all *devices) {
		for h := range hosts {
			for n := range uint32(each) {
				all.add(DeviceID{Host: [32]byte{byte(h)}, Number: n})
			}
		}
	}) / (hosts * each); bytes > 0.5 {
		t.Errorf("%.2f bytes for a device among many", bytes)
	}
	// A host that enrols numbers far apart, to make each cost a page, gains little.
	const apart = 1 << 15
	if bytes := heapOf(func(all *devices) {
		for n := range uint32(apart) {
			all.add(DeviceID{Number: n << 16})
		}
	}) / apart; bytes > 200 {
		t.Errorf("%.0f bytes for a device that is alone", bytes)
	}
}

// heapOf is how many bytes a set takes that is filled so.
func heapOf(fill func(*devices)) float64 {
	var before, after runtime.MemStats
	all := newDevices()
	runtime.GC()
	runtime.ReadMemStats(&before)
	fill(&all)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(&all)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}
