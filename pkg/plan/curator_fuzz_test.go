package plan_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// FuzzDecodeRecord reads the entries that any bytes make, in range, as the record of somebody: whoever made them, the
// arm is in the unit ball and the reward in the family's range, which is what the curator's guarantee needs.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte{}, true, 1.0)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, false, 1.0)
	f.Fuzz(func(t *testing.T, data []byte, logistic bool, maxReward float64) {
		name := family.NameLinear
		if logistic {
			name = family.NameLogistic
		}
		if _, err := family.New(name, maxReward); err != nil {
			return
		}
		e := plan.RecordEncoding(2, name, maxReward)
		entries := make([]uint32, len(e.Coordinates))
		for i := range entries {
			var word [4]byte
			data = data[copy(word[:], data):]
			entries[i] = uint32(uint64(binary.LittleEndian.Uint32(word[:])) % (uint64(e.Coordinates[i].Levels) + 1))
		}
		arm, reward, _ := plan.DecodeRecord(e, entries, maxReward)
		least, most := family.RewardRange(name, maxReward)
		if norm := math.Hypot(arm[0], arm[1]); len(arm) != 2 || !(norm <= 1+1e-12) ||
			!(reward >= least && reward <= most) {
			t.Fatalf("%v are an arm %v and a reward %v outside [%v, %v]", entries, arm, reward, least, most)
		}
	})
}
