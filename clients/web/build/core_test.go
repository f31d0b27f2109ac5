package main

import "testing"

// maxCore is most bytes of the core that a page loads, compressed with brotli: what it has, and a little.
const maxCore = 1_180_000

func TestTheCoreIsSmallEnoughForAPage(t *testing.T) {
	t.Chdir("..")
	core, err := compile("")
	if err != nil {
		t.Fatal(err)
	}
	size := squeezed(core)
	t.Logf("%d bytes, %d with brotli", len(core), size)
	if size > maxCore {
		t.Errorf("the core has %d bytes with brotli, at most %d are for a page", size, maxCore)
	}
}
