package spill_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel/spill"
)

func open(t testing.TB, folder string, memory int64) *spill.Store {
	t.Helper()
	s, err := spill.New(folder, memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random is so many bytes of a seed.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func readAll(t testing.TB, p *spill.Pile, entry int) (all []byte) {
	t.Helper()
	must(t, p.Read(entry, func(b []byte) error {
		if len(b) == 0 || len(b)%entry != 0 {
			t.Errorf("a piece of %d bytes", len(b))
		}
		all = append(all, b...)
		return nil
	}))
	return all
}

func files(t testing.TB, folder string) (all []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*"))
	must(t, err)
	return all
}

// Entries come back sorted, all of them, and a pile as it was appended, whether they fit into memory or not, and
// however unevenly their bytes are spread.
func TestWhatIsSpiltComesBack(t *testing.T) {
	t.Parallel()
	const size, entries = 12, 60_000
	for name, change := range map[string]func(all []byte){
		"spread evenly": func(all []byte) { copy(all[size*77:], all[size*4000:size*4001]) },
		"half of them equal": func(all []byte) {
			for i := 0; i < entries; i += 2 {
				copy(all[i*size:], "equal equal ")
			}
		},
		"all equal":             func(all []byte) { copy(all, slices.Repeat([]byte("equal equal "), entries)) },
		"equal but for the end": func(all []byte) { eachSet(all, size, func(e []byte) { copy(e, "equal equ") }) },
		"equal but for the begin": func(all []byte) {
			eachSet(all, size, func(e []byte) { copy(e[2:], "equal equa") })
		},
		"in ascending order":          func(all []byte) { ascend(all, size) },
		"with one bit that is seldom": func(all []byte) { eachSet(all[size:], size, func(e []byte) { e[0] = 0 }) },
	} {
		for _, memory := range []int64{1, 1 << 30} { // of 720 kB
			s := open(t, t.TempDir(), memory)
			all := random(1, size*entries)
			change(all)
			sorter, pile := s.Sorter(size), s.Pile()
			for piece := range slices.Chunk(all, 37*size) {
				must(t, sorter.Append(piece))
				must(t, pile.Append(piece))
			}
			var sorted []byte
			must(t, sorter.Sorted(func(b []byte) error { sorted = append(sorted, b...); return nil }))
			want := slices.Collect(slices.Chunk(bytes.Clone(all), size))
			slices.SortFunc(want, bytes.Compare)
			if !bytes.Equal(sorted, slices.Concat(want...)) {
				t.Errorf("%s, %d bytes of memory: %d bytes come back, in another order or of other content",
					name, memory, len(sorted))
			}
			for _, entry := range []int{1, size, 1200} {
				if !bytes.Equal(readAll(t, pile, entry), all) {
					t.Errorf("%s, %d bytes of memory: the pile has other bytes", name, memory)
				}
			}
			if sorter.Size() != entries || pile.Size() != size*entries {
				t.Errorf("%d entries, %d bytes", sorter.Size(), pile.Size())
			}
			must(t, sorter.Close())
			must(t, pile.Close())
		}
	}
}

func eachSet(all []byte, size int, f func(entry []byte)) {
	for e := range slices.Chunk(all, size) {
		f(e)
	}
}

func ascend(all []byte, size int) {
	i := uint64(0)
	eachSet(all, size, func(e []byte) { i += 1 << 40; binary.BigEndian.PutUint64(e, i) })
}

// Buckets hold what was put into each, in the order in which it was.
func TestBucketsHoldWhatWasPutIntoThem(t *testing.T) {
	t.Parallel()
	const size, buckets = 52, 9
	s := open(t, t.TempDir(), 1)
	b := s.Buckets(buckets, size)
	var want [buckets][]byte
	source := rand.New(rand.NewPCG(1, 2))
	for piece := range slices.Chunk(random(2, size*50_000), size*100) {
		to := make([]uint32, 100)
		for i := range to {
			to[i] = source.Uint32N(buckets)
			want[to[i]] = append(want[to[i]], piece[i*size:][:size]...)
		}
		must(t, b.Append(piece, to))
	}
	for i := range b.Len() {
		if !bytes.Equal(readAll(t, b.Pile(i), size), want[i]) {
			t.Errorf("bucket %d has other entries", i)
		}
	}
	if err := b.Append(make([]byte, size), nil); err == nil {
		t.Error("an entry without a bucket is taken")
	}
	must(t, b.Close())
}

// Goroutines that append at the same time, while another one reads, mix no bytes.
func TestManyAppendAtATime(t *testing.T) {
	t.Parallel()
	const size, each, routines = 1000, 500, 8
	s := open(t, t.TempDir(), 1)
	p := s.Pile()
	var appending sync.WaitGroup
	for i := range routines {
		appending.Go(func() {
			entry := bytes.Repeat([]byte{byte(i)}, size)
			for range each {
				if err := p.Append(entry); err != nil {
					t.Error(err)
				}
			}
		})
	}
	whole := func(all []byte) {
		for e := range slices.Chunk(all, size) {
			if len(bytes.TrimLeft(e, string(e[:1]))) > 0 {
				t.Fatal("an entry has the bytes of two")
			}
		}
	}
	for range 10 {
		whole(readAll(t, p, size))
	}
	appending.Wait()
	all := readAll(t, p, size)
	if whole(all); len(all) != size*each*routines {
		t.Errorf("%d bytes", len(all))
	}
}

// Sorting 48 times the memory takes no more than the memory and the blocks of 257 piles, and what readers take. It must
// run alone.
func TestMemoryIsBounded(t *testing.T) {
	const memory, size, entries, bound = 1 << 20, 32, 48 << 20 / 32, 2 << 20
	s := open(t, t.TempDir(), memory)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	look := func() {
		runtime.GC()
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
	}
	source, piece := rand.NewChaCha8([32]byte{3}), make([]byte, 1024*size)
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	sorter := s.Sorter(size)
	for i := range entries * size / len(piece) {
		source.Read(piece)
		must(t, sorter.Append(piece))
		if i%100 == 0 {
			look()
		}
	}
	last, read, pieces := make([]byte, size), 0, 0
	must(t, sorter.Sorted(func(b []byte) error {
		for e := range slices.Chunk(b, size) {
			if bytes.Compare(last, e) > 0 {
				t.Fatal("not in order")
			}
			copy(last, e)
		}
		read += len(b)
		if pieces++; pieces%100 == 0 {
			look()
		}
		return nil
	}))
	if read != entries*size {
		t.Errorf("%d bytes come back", read)
	}
	if t.Logf("%d bytes at most for %d", peak, entries*size); peak > bound {
		t.Errorf("%d bytes of memory, more than %d", peak, bound)
	}
	must(t, sorter.Close())
}

// What is in the file is none of what was appended; nothing is there once all is closed, and the file goes with
// the store.
func TestTheFileIsSealedAndRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, err := spill.New(folder, 1)
	must(t, err)
	p := s.Pile()
	if got := files(t, folder); len(got) != 0 {
		t.Errorf("%v before anything is spilt", got)
	}
	plain := bytes.Repeat([]byte("nobody reads this"), 1<<16)
	for piece := range slices.Chunk(plain, 1<<10) {
		must(t, p.Append(piece))
	}
	all := files(t, folder)
	if len(all) != 1 {
		t.Fatalf("files %v", all)
	}
	b, err := os.ReadFile(all[0])
	must(t, err)
	if len(b) < len(plain)/2 {
		t.Fatalf("%d bytes are spilt of %d", len(b), len(plain))
	}
	// Equal blocks are sealed differently, and no eight bytes of the text are there: of a megabyte of random bytes
	// that happens for one of 17 such words with probability 1e-12.
	for i := range 17 {
		if bytes.Contains(b, slices.Concat(plain[i:17], plain[:i])[:8]) {
			t.Error("plain bytes are in the file")
		}
	}
	if bytes.Equal(b[:256], b[17*272:][:256]) {
		t.Error("the same bytes are sealed twice in the same way")
	}
	must(t, p.Close())
	if got := files(t, folder); len(got) != 0 {
		t.Errorf("%v after the pile was closed", got)
	}
	p = s.Pile()
	for piece := range slices.Chunk(plain, 1<<10) {
		must(t, p.Append(piece))
	}
	if all = files(t, folder); len(all) != 1 {
		t.Fatalf("files %v where the same is spilt again", all)
	}
	again, err := os.ReadFile(all[0])
	must(t, err)
	if bytes.Equal(again[:256], b[:256]) {
		t.Error("the same bytes are sealed in the same way in the same place")
	}
	must(t, s.Close())
	if got := files(t, folder); len(got) != 0 {
		t.Errorf("%v after the end", got)
	}
	if err := s.Pile().Append(plain); err == nil {
		t.Error("a closed store takes bytes")
	}
}

// Another process removes what one left that was killed, and nothing else.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "[a-b]") // no pattern, but a name
	must(t, os.Mkdir(folder, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "spill-123"), []byte("left"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "journal"), []byte("kept"), 0o600))
	open(t, folder, 1)
	if got, err := os.ReadDir(folder); err != nil || len(got) != 1 || got[0].Name() != "journal" {
		t.Errorf("files %v (%v)", got, err)
	}
}

// A disk that takes nothing is an error that says what to do. Nothing is lost, and once the disk takes bytes again it
// goes on.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "spill")
	s := open(t, folder, 1)
	must(t, os.Remove(folder))
	p := s.Pile()
	var want []byte
	var err error
	for i := byte(0); err == nil; i++ {
		if piece := random(i, 1500); len(want) > 1<<20 {
			t.Fatal("a megabyte fits into 256 KiB")
		} else if err = p.Append(piece); err == nil {
			want = append(want, piece...)
		}
	}
	if !strings.Contains(err.Error(), folder) {
		t.Errorf("the error does not say where: %v", err)
	}
	if !bytes.Equal(readAll(t, p, 1500), want) {
		t.Error("other bytes than those that were taken")
	}
	must(t, os.Mkdir(folder, 0o700))
	for i := range byte(100) {
		want = append(want, random(i, 5000)...)
		must(t, p.Append(random(i, 5000)))
	}
	if !bytes.Equal(readAll(t, p, 1), want) {
		t.Error("other bytes than those that were taken, after the disk came back")
	}
}

// A block that somebody changed, or exchanged for another one of the same file, is an error and never other bytes.
func TestAChangedFileIsAnError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b []byte){
		"a bit":      func(b []byte) { b[100] ^= 1 },
		"two blocks": func(b []byte) { x := bytes.Clone(b[:272]); copy(b, b[272:544]); copy(b[272:], x) },
	} {
		folder := t.TempDir()
		s := open(t, folder, 1)
		p := s.Pile()
		for i := range byte(100) {
			must(t, p.Append(random(i, 10_000)))
		}
		path := files(t, folder)[0]
		b, err := os.ReadFile(path)
		must(t, err)
		change(b)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt(b, 0)
		must(t, err)
		must(t, f.Close())
		err = p.Read(1, func([]byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkSort sorts entries of 64 bytes, in memory and with 16 times less.
func BenchmarkSort(b *testing.B) {
	const size, entries = 64, 1 << 20
	all := random(1, size*entries)
	for name, memory := range map[string]int64{"memory": 1 << 30, "file": 4 << 20} {
		b.Run(name, func(b *testing.B) {
			s := open(b, b.TempDir(), memory)
			b.SetBytes(size * entries)
			for b.Loop() {
				sorter := s.Sorter(size)
				for piece := range slices.Chunk(all, 128*size) {
					must(b, sorter.Append(piece))
				}
				must(b, sorter.Sorted(func([]byte) error { return nil }))
				must(b, sorter.Close())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
		})
	}
}
