package witness_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// FuzzWitnessFolder puts any bytes in the place of what a witness remembers and of what it published, and has it look
// at a log. It signs only what extends the checkpoint that it saw and still has in one of them, and a damaged memory is
// an error: otherwise it would vouch for a log that was rewound.
func FuzzWitnessFolder(f *testing.F) {
	role, err := seal.NewIdentity(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	own, err := seal.NewIdentity(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		f.Fatal(err)
	}
	origin := transparency.Origin(deployment, string(bus.Shuffler))
	shows := func(leaves ...string) *view {
		var tree transparency.Tree
		for _, leaf := range leaves {
			tree.Append([]byte(leaf))
		}
		note, err := transparency.Sign(transparency.Checkpoint{Origin: origin, Size: tree.Size(), Root: tree.Root()},
			role)
		if err != nil {
			f.Fatal(err)
		}
		return &view{leaves: leaves, checkpoint: note}
	}
	one, two, other := shows("a"), shows("a", "b"), shows("x", "b")
	saw, err := transparency.Cosign(two.checkpoint, "w1", own, first)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one.checkpoint, []byte{}, byte(1))
	f.Add(two.checkpoint, saw, byte(0))
	f.Add([]byte{}, saw, byte(2))
	f.Add(two.checkpoint[:20], []byte("note"), byte(1))
	state, out := filepath.Join(f.TempDir(), "state"), f.TempDir()
	if err := os.MkdirAll(state, 0o700); err != nil {
		f.Fatal(err)
	}
	memory, published := filepath.Join(state, "shuffler.checkpoint"), filepath.Join(out, "shuffler.w1.checkpoint")
	logs := []*view{one, two, other}
	f.Fuzz(func(t *testing.T, remembered, cosigned []byte, at byte) {
		for path, b := range map[string][]byte{memory: remembered, published: cosigned} {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if len(b) > 0 {
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		w := &witness.Witness{Name: "w1", Key: own, State: channel.Folder(state), Out: out}
		log := logs[int(at)%len(logs)]
		_, err := w.Look(t.Context(), log, witness.Log{Deployment: deployment, Role: bus.Shuffler, Key: role.Public()},
			first)
		before, damaged := transparency.Open(remembered, origin, role.Public())
		own, _, none := transparency.OpenCosigned(cosigned, origin, role.Public(), "w1", own.Public())
		if none == nil && (damaged != nil || own.Size > before.Size) {
			before = own
		}
		fine := len(remembered) == 0 || damaged == nil
		if before.Size > 0 {
			size := int(before.Size)
			fine = fine && size <= len(log.leaves) && before.Root == rootOf(log.leaves[:size]...)
		}
		if (err == nil) != fine {
			t.Fatalf("it saw %d entries, is shown %d: %v", before.Size, len(log.leaves), err)
		}
		after, failed := os.ReadFile(memory)
		if err == nil && (failed != nil || !bytes.Equal(after, log.checkpoint)) ||
			err != nil && len(remembered) > 0 && !bytes.Equal(after, remembered) {
			t.Fatalf("after %v it remembers %q, %v", err, after, failed)
		}
	})
}

func rootOf(leaves ...string) transparency.Hash {
	var tree transparency.Tree
	for _, leaf := range leaves {
		tree.Append([]byte(leaf))
	}
	return tree.Root()
}
