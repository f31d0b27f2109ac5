package device

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// logged is the analyzer's log, with witnesses.
type logged struct {
	*fixture
	leaves    [][]byte
	witnesses []*seal.Identity
	config    Config
}

// newLogged has three witnesses, of whom two must have seen the log.
func newLogged(f *fixture, leaves ...[]byte) *logged {
	l := &logged{fixture: f, leaves: leaves, config: f.everywhere()}
	for i := range byte(3) {
		id := must(seal.NewIdentity(bytes.Repeat([]byte{20 + i}, 32)))
		l.witnesses = append(l.witnesses, id)
		l.config.Witnesses.All = append(l.config.Witnesses.All,
			transparency.Witness{Name: witnessName(int(i)), Key: id.Public()})
	}
	l.config.Witnesses.Quorum = 2
	return l
}

func witnessName(i int) string { return string(rune('a'+i)) + ".example.org" }

// checkpoint is that of the log, co-signed by some of the witnesses.
func (l *logged) checkpoint(by *seal.Identity, origin string, witnesses ...int) []byte {
	var tree transparency.Tree
	for _, leaf := range l.leaves {
		tree.Append(leaf)
	}
	signed := must(transparency.Sign(transparency.Checkpoint{Origin: origin, Size: tree.Size(), Root: tree.Root()}, by))
	for _, w := range witnesses {
		signed = must(transparency.Cosign(signed, witnessName(w), l.witnesses[w], start))
	}
	return signed
}

// proof shows that a leaf is in the log.
func (l *logged) proof(index int, checkpoint []byte) []byte {
	var hashes []transparency.Hash
	for _, leaf := range l.leaves {
		hashes = append(hashes, transparency.LeafHash(leaf))
	}
	shown := must(transparency.Prove(hashes, uint64(index), uint64(len(hashes))))
	return transparency.Proof{Index: uint64(index), Hashes: shown, Checkpoint: checkpoint}.Encode()
}

const analyzersLog = "riffle/" + deployment + "/analyzer"

// A device begins in a late epoch with one announcement that two of its three witnesses saw in the log, follows the
// chain from there, enrols, and needs no proof after a restart.
func TestADeviceBeginsAtAWitnessedCheckpoint(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l := newLogged(f, f.chain(f.announcement(glm.Practical), 40)...)
	d := f.opened(l.config)
	before, after := l.leaves[29], l.leaves[31]
	if err := d.Begin(l.proof(30, l.checkpoint(f.analyzer, analyzersLog, 0, 2)), l.leaves[30]); err != nil {
		t.Fatal(err)
	}
	if s := d.Status(); s.Epoch != 31 || s.Epsilon <= 0 {
		t.Errorf("%+v", s)
	}
	d = f.restart(d)
	if fresh, err := d.Follow(before, start); fresh || err != nil {
		t.Errorf("an earlier announcement: %v %v", fresh, err)
	}
	if fresh, err := d.Follow(l.leaves[32], start); fresh || !errors.Is(err, ErrRewound) {
		t.Errorf("a gap in the chain: %v %v", fresh, err)
	}
	if fresh, err := d.Follow(after, start); !fresh || err != nil {
		t.Errorf("the next announcement: %v %v", fresh, err)
	}
	f.enrol(d)
	if err := d.Begin(l.proof(35, l.checkpoint(f.analyzer, analyzersLog, 0, 1, 2)), l.leaves[35]); !errors.Is(err,
		ErrBegin) || d.Status().Epoch != 32 {
		t.Errorf("a device that follows begins again: %v", err)
	}
}

// Whatever a quorum of witnesses did not see in this log is no beginning, and leaves the device as it was.
func TestWhatIsNoBeginning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l := newLogged(f, f.chain(f.announcement(glm.Practical), 9)...)
	other := newLogged(f, slices.Concat(l.leaves[:8], [][]byte{f.keys(1, f.shufflerKey)})...)
	good := l.checkpoint(f.analyzer, analyzersLog, 0, 1)
	five, proof := l.leaves[5], l.proof(5, good)
	changed := func(from, to string) []byte { return bytes.Replace(proof, []byte(from), []byte(to), 1) }
	under := func(origin string, by *seal.Identity, witnesses ...int) []byte {
		return l.proof(5, l.checkpoint(by, origin, witnesses...))
	}
	for name, try := range map[string]struct {
		proof, signed []byte
		config        Config
	}{
		"one witness":          {under(analyzersLog, f.analyzer, 1), five, l.config},
		"one witness twice":    {under(analyzersLog, f.analyzer, 1, 1), five, l.config},
		"no witness is known":  {under(analyzersLog, f.analyzer, 0, 1, 2), five, f.config()},
		"the shuffler's log":   {under("riffle/"+deployment+"/shuffler", f.shuffler, 0, 1), five, l.config},
		"another deployment":   {under("riffle/other/analyzer", f.analyzer, 0, 1), five, l.config},
		"another signer":       {under(analyzersLog, f.shuffler, 0, 1), five, l.config},
		"another announcement": {proof, l.leaves[6], l.config},
		"another log":          {l.proof(5, other.checkpoint(f.analyzer, analyzersLog, 0, 1)), five, l.config},
		"no announcement": {other.proof(8, other.checkpoint(f.analyzer, analyzersLog, 0, 1)), other.leaves[8],
			l.config},
		"no proof":         {nil, five, l.config},
		"extra data":       {changed("index", "extra AA==\nindex"), five, l.config},
		"without a number": {changed("index 5", "index -5"), five, l.config},
		"more than a log":  {bytes.Repeat([]byte("index 5\n"), transparency.MaxProof/8+1), five, l.config},
	} {
		d := f.opened(try.config)
		was := must(d.Save())
		if err := d.Begin(try.proof, try.signed); !errors.Is(err, ErrBegin) {
			t.Errorf("%s: %v", name, err)
		}
		if now := must(d.Save()); !bytes.Equal(was, now) || d.last != nil {
			t.Errorf("%s: the device is another: %s", name, now)
		}
	}
	if err := f.opened(l.config).Begin(proof, five); err != nil {
		t.Errorf("what was changed above: %v", err)
	}
}

// Which witnesses would be no quorum is said when the device is opened.
func TestWitnessesWithoutAQuorumAreRefused(t *testing.T) {
	t.Parallel()
	l := newLogged(newFixture(t))
	all := l.config.Witnesses.All
	twice := []transparency.Witness{all[0], {Name: "z", Key: all[0].Key}}
	for text, w := range map[string]transparency.Witnesses{
		"quorum of 0": {All: all}, "1 out of 3": {All: all, Quorum: 1},
		"quorum of 4": {All: all, Quorum: 4}, "quorum of 1": {Quorum: 1},
		"quorum of -1": {Quorum: -1}, "twice": {All: twice, Quorum: 2},
		"not a witness": {All: []transparency.Witness{{Name: "a b", Key: all[0].Key}}, Quorum: 1},
		"31 bytes":      {All: []transparency.Witness{{Name: "a", Key: make([]byte, 31)}}, Quorum: 1},
	} {
		c := l.config
		c.Witnesses = w
		if _, err := Open(c, 3, nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What the announcement says with which a device begins holds from then on, as that of the first does for who was
// there; what it was before the device cannot see, and its limits judge it as they would in epoch 1.
func TestABeginningBindsWhatFollows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.announcement(glm.Practical)
	turned := next(through(first, plan.Shares)) // a break that the log shows to everybody
	digest := digestOf(first)
	turned.Previous = digest[:]
	back := next(through(turned, plan.Shuffle))
	later := next(turned)
	slower := next(turned)
	slower.Timing.RewardWindow *= 2
	l := newLogged(f, f.announce(first), f.announce(turned), f.announce(back))
	there, late := f.opened(l.config), f.opened(l.config)
	must(there.Follow(l.leaves[0], start))
	if _, err := there.Follow(l.leaves[1], start); !errors.Is(err, ErrRewound) {
		t.Errorf("who was there follows to another channel: %v", err)
	}
	proof := l.proof(1, l.checkpoint(f.analyzer, analyzersLog, 0, 1))
	if err := late.Begin(proof, l.leaves[1]); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*plan.Announcement{"channel": back, "times": slower} {
		if _, err := late.Follow(f.announce(a), start); !errors.Is(err, ErrRewound) {
			t.Errorf("another %s after the beginning: %v", name, err)
		}
	}
	if fresh, err := late.Follow(f.announce(later), start); !fresh || err != nil {
		t.Errorf("the same after the beginning: %v", err)
	}
	distrusting := l.config
	distrusting.Limits.Trust = []plan.Channel{plan.Shuffle}
	d := f.opened(distrusting)
	if err := d.Begin(proof, l.leaves[1]); err != nil {
		t.Fatal(err)
	}
	var weak *WeakPlan
	if _, err := d.Enrol(start); !errors.As(err, &weak) || weak.Limit != "trust" {
		t.Errorf("a channel that is not trusted: %v", err)
	}
}
