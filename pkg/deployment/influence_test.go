package deployment_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/box"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// honestPeople report in every round of these tests: enough that no count is cut to what all reports can make.
const honestPeople = 24

// attack is what one dishonest device reports: for each coordinate, release by release, so many ones, and in shuffle so
// many bits.
type attack struct{ ones, bits []int }

// scene is a round in one channel from sealed reports to sums, with dishonest devices.
type scene struct {
	*testing.T
	a        *plan.Announcement
	digest   [32]byte
	analyzer *seal.HPKEKey
	people   *rand.ChaCha8
}

func seedOf(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newScene is a round of two releases with ranges and noise of different sizes, whose reports hold up to three
// decisions, with so many dishonest reports expected.
func newScene(t *testing.T, c plan.Channel, people, dishonest int) *scene {
	t.Helper()
	first, second := uint32(8), uint32(3)
	if c == plan.Central {
		first, second = 0, 0
	}
	encodings := []protocol.Encoding{
		{Scale: 4, NoiseBits: first, Bias: protocol.BiasHalf,
			Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: -0.5, Levels: 3}}},
		{Scale: 2, NoiseBits: second, Bias: protocol.BiasQuarter,
			Coordinates: []protocol.Coordinate{{Offset: -2, Levels: 9}, {Offset: 0, Levels: 4}}},
	}
	releases := []plan.Release{
		{Statistic: glm.Hessian, Shift: 1, NoiseBits: first, Bias: protocol.BiasHalf},
		{Statistic: glm.Gradient, Shift: 1, NoiseBits: second, Bias: protocol.BiasQuarter},
	}
	switch c {
	case plan.Shares:
		releases[0].ShufflerNoise, releases[0].AnalyzerNoise = 40, 30
	case plan.Central:
		releases[0].AnalyzerNoise, releases[1].AnalyzerNoise = 90, 50
	}
	s := &scene{T: t, digest: [32]byte{4}, people: rand.NewChaCha8([32]byte{17}),
		analyzer: made(seal.NewHPKEKey(seedOf(5)))}
	s.a = &plan.Announcement{
		Deployment: "influence", Epoch: 1, Encodings: encodings, AnalyzerKey: s.analyzer.Public(),
		Plan:   plan.Plan{Channel: c, Rounds: []plan.Round{{Releases: releases}}, Decisions: 3},
		Cohort: plan.Cohort{Size: uint32(people), Minimum: 10, MaxDishonest: uint32(dishonest)},
	}
	return s
}

// honest are the vectors of one honest report.
func (s *scene) honest() (vectors [][]float64) {
	src := rand.New(s.people)
	for _, e := range s.a.Encodings {
		var x []float64
		for _, c := range e.Coordinates {
			x = append(x, c.Offset+src.Float64()*float64(c.Levels)/e.Scale)
		}
		vectors = append(vectors, x)
	}
	return vectors
}

// sums are those of so many honest people, the same ones at every call, and of the attackers, as the analyzer decodes
// them. odd is how many bits exceed their coordinates' numbers.
func (s *scene) sums(honest int, attackers []attack) (sums [][]float64, odd int) {
	s.Helper()
	s.people = rand.NewChaCha8([32]byte{17})
	var ones [][]uint64
	switch s.a.Plan.Channel {
	case plan.Shuffle:
		ones, odd = s.shuffled(honest, attackers)
	case plan.Shares:
		ones = s.shared(honest, attackers)
	default:
		ones = s.boxed(honest, attackers)
	}
	counts := &wire.Counts{Reports: uint32(honest + len(attackers))}
	for _, of := range ones {
		counts.Releases = append(counts.Releases, wire.ReleaseCounts{Ones: of})
	}
	for _, sum := range made(deployment.Sums(s.a, counts)) {
		sums = append(sums, sum.Values)
	}
	return sums, odd
}

func (s *scene) shuffled(honest int, attackers []attack) ([][]uint64, int) {
	d := made(shuffle.NewDevice(s.a.Encodings, s.a.AnalyzerKey, s.digest))
	sealer := made(seal.NewBitSealer(s.a.AnalyzerKey, s.digest))
	var messages []byte
	for range honest {
		messages = made(d.Append(messages, channel.Sender{}, s.honest(), s.people))
	}
	for _, of := range attackers {
		before, j := len(messages), 0
		for r, e := range s.a.Encodings {
			for c := range e.Coordinates {
				messages = made(sealer.AppendSealRun(messages, uint8(r), uint16(c), of.bits[j], of.ones[j]))
				j++
			}
		}
		if len(messages)-before != d.Size() {
			s.Fatalf("an attacker's payload has %d bytes: the shuffler refuses all but %d", len(messages)-before, d.Size())
		}
	}
	t := shuffle.NewTally(s.a.Encodings)
	t.Open(seal.NewBitOpener(s.analyzer, s.digest), messages)
	return t.Counts(uint64(honest+len(attackers)), make([]uint64, len(s.a.Encodings)))
}

// liar is the announcement with encodings of the same sizes in which a vector of whole numbers is its own entries.
func (s *scene) liar(most func(e protocol.Encoding, j int) uint32) *plan.Announcement {
	a := s.a.Clone()
	for r, e := range a.Encodings {
		a.Encodings[r].Scale, a.Encodings[r].NoiseBits = 1, 0
		for j := range e.Coordinates {
			a.Encodings[r].Coordinates[j] = protocol.Coordinate{Levels: most(e, j)}
		}
	}
	return a
}

// vectors are those that a liar's encodings turn into an attack's entries.
func (s *scene) vectors(of attack) (vectors [][]float64) {
	j := 0
	for _, e := range s.a.Encodings {
		var x []float64
		for range e.Coordinates {
			x = append(x, float64(of.ones[j]))
			j++
		}
		vectors = append(vectors, x)
	}
	return vectors
}

// host is who sends, admitted by the registrar.
func (s *scene) host(commitment []byte) (channel.Sender, *channel.Verifier) {
	registrar, host := made(seal.NewIdentity(seedOf(6))), made(seal.NewIdentity(seedOf(8)))
	admitted := &wire.Credential{Deployment: "influence", HostKey: host.Public(), Devices: 100}
	credential, _, err := wire.Sign(admitted, registrar)
	return channel.Sender{Identity: host, Credential: made(credential, err), Number: 1, Commitment: commitment},
		channel.NewVerifier(wire.Party{Deployment: "influence", Key: registrar.Public()})
}

func (s *scene) shared(honest int, attackers []attack) [][]uint64 {
	secret := shares.NewSecret(made(seal.NewIdentity(seedOf(7))), [32]byte{9})
	by, verifier := s.host(secret.Commitment())
	round := made(shares.NewRound(s.a, s.digest))
	leader, helper := made(round.NewLeader(secret)), made(round.NewHelper(secret, s.analyzer, verifier))
	mine, theirs := made(round.NewLeaderSum()), made(round.NewHelperSum())
	take := func(payload []byte) {
		row, pending, err := leader.Prepare(nil, payload)
		if err != nil {
			s.Fatal(err)
		}
		v := made(helper.Verify(row))
		if err := errors.Join(leader.Finish(mine, pending, v.Answer[:]), helper.Add(theirs, v)); err != nil {
			s.Fatal(err)
		}
	}
	d := made(shares.NewDevice(s.a, s.digest))
	for range honest {
		take(made(d.Append(nil, by, s.honest(), s.people)))
	}
	wide := uint32(1)<<s.a.EntryBits() - 1
	lying := made(shares.NewDevice(s.liar(func(protocol.Encoding, int) uint32 { return wide }), s.digest))
	for _, of := range attackers {
		take(made(lying.Append(nil, by, s.vectors(of), s.people)))
	}
	if len(attackers) > 0 { // a wider entry is no report
		wider := made(shares.NewDevice(s.liar(func(protocol.Encoding, int) uint32 { return 2 * wide }), s.digest))
		payload := made(wider.Append(nil, by, s.vectors(attackers[0]), s.people))
		if _, _, err := leader.Prepare(nil, payload); !errors.Is(err, wire.ErrSize) {
			s.Errorf("entries of more bits: %v, want ErrSize", err)
		}
	}
	noised := made(mine.Noise(rand.NewChaCha8([32]byte{1})))
	return made(theirs.Counts(noised, rand.NewChaCha8([32]byte{2})))
}

func (s *scene) boxed(honest int, attackers []attack) [][]uint64 {
	by, verifier := s.host(nil)
	o := made(box.NewOpener(s.a, s.digest, s.analyzer, verifier))
	ones := make([][]uint64, len(s.a.Encodings))
	for r, e := range s.a.Encodings {
		ones[r] = make([]uint64, len(e.Coordinates))
		if err := e.AddServerNoise(ones[r], s.a.Releases()[r].ServerNoise(), rand.NewChaCha8([32]byte{1})); err != nil {
			s.Fatal(err)
		}
	}
	take := func(payload []byte) {
		entries, _, err := o.Open(nil, payload)
		if err != nil {
			s.Fatal(err)
		}
		j := 0
		for r := range ones {
			for c := range ones[r] {
				ones[r][c] += uint64(entries[j])
				j++
			}
		}
	}
	d := made(box.NewDevice(s.a, s.digest))
	for range honest {
		take(made(d.Append(nil, by, s.honest(), s.people)))
	}
	wide := s.liar(func(e protocol.Encoding, j int) uint32 { return uint32(e.MessagesAt(j)) + 1 })
	lying := made(box.NewDevice(wide, s.digest))
	for _, of := range attackers {
		take(made(lying.Append(nil, by, s.vectors(of), s.people)))
	}
	if len(attackers) > 0 { // one more than there can be is no entry
		x := s.vectors(attackers[0])
		x[0][0] = float64(s.a.Encodings[0].MessagesAt(0)) + 1
		if _, _, err := o.Open(nil, made(lying.Append(nil, by, x, s.people))); !errors.Is(err, box.ErrRange) {
			s.Errorf("an entry out of range: %v, want ErrRange", err)
		}
	}
	return ones
}

// own is how many bits an honest device sends for each coordinate, release by release.
func (s *scene) own() (own []int) {
	for _, e := range s.a.Encodings {
		for j := range e.Coordinates {
			own = append(own, e.MessagesAt(j))
		}
	}
	return own
}

// strongest are attacks of k devices that together put as many ones as the channel lets pass on one coordinate of all,
// or on every one where coordinates do not share bits; at < 0 puts none anywhere.
func (s *scene) strongest(k, at int) (all []attack) {
	own := s.own()
	spare := int(s.a.Cohort.MaxDishonest) * s.a.ReportMessages() // bits too many on their coordinate
	for range k {
		of := attack{ones: make([]int, len(own)), bits: slices.Clone(own)}
		switch s.a.Plan.Channel {
		case plan.Shuffle:
			if at < 0 {
				break
			}
			for j := range own {
				if n := min(own[j], spare); j != at { // bits of another coordinate, as long as they are not noticed
					of.bits[j], of.bits[at], spare = own[j]-n, of.bits[at]+n, spare-n
				}
			}
			of.ones[at] = of.bits[at]
		case plan.Shares:
			for j := range own {
				if at >= 0 {
					of.ones[j] = 1<<s.a.EntryBits() - 1
				}
			}
		default:
			if at >= 0 {
				copy(of.ones, own)
			}
		}
		all = append(all, of)
	}
	return all
}

// closeTo says whether two numbers agree but for the last rounding.
func closeTo(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// The sums of real reports, sealed, opened, counted and decoded, move by exactly what Influence says when dishonest
// devices do the most or the least that passes, on every coordinate of every channel: one device, and several, more
// than the plan expects among them.
func TestInfluenceIsReachedOnEveryCoordinate(t *testing.T) {
	for _, c := range plan.Channels() {
		for _, x := range []struct{ devices, expected int }{{1, 1}, {3, 1}, {2, 2}, {2, 0}} {
			s := newScene(t, c, honestPeople+x.devices, x.expected)
			influence := made(s.a.Influence(x.devices, uint32(honestPeople+x.devices)))
			without, _ := s.sums(honestPeople, nil)
			none, _ := s.sums(honestPeople, s.strongest(x.devices, -1))
			at := 0
			for r, of := range influence {
				if of.Statistic != s.a.Releases()[r].Statistic || of.Devices != x.devices {
					t.Errorf("%s: release %d is called %s, of %d devices", c, r, of.Statistic, of.Devices)
				}
				for j := range of.Most {
					all, odd := s.sums(honestPeople, s.strongest(x.devices, at))
					if most := x.expected * s.a.ReportMessages(); odd > most {
						t.Fatalf("%s: %d bits too many, the analyzer refuses more than %d", c, odd, most)
					}
					at++
					if got := none[r][j] - without[r][j]; !closeTo(got, of.Least[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: the least adds %v, stated is %v", c, x, r, j, got, of.Least[j])
					}
					if got := all[r][j] - without[r][j]; !closeTo(got, of.Most[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: the most adds %v, stated is %v", c, x, r, j, got, of.Most[j])
					}
					if got := all[r][j] - none[r][j]; !closeTo(got, of.Moves()[j]) {
						t.Errorf("%s, %+v, release %d, coordinate %d: moved by %v, stated is %v", c, x, r, j, got, of.Moves()[j])
					}
				}
			}
		}
	}
}

// distance is the Euclidean one.
func distance(a, b []float64) float64 {
	square := 0.0
	for j := range a {
		square += (a[j] - b[j]) * (a[j] - b[j])
	}
	return math.Sqrt(square)
}

// Whatever dishonest devices report, 300 times at random and in each corner, no sum leaves the stated range and no two
// sums are farther apart than Distance. It is reached but where several devices share bits of which one may be too
// many.
func TestNoReportMovesASumFurtherThanItsInfluence(t *testing.T) {
	const attackers = 2
	for _, c := range plan.Channels() {
		for _, expected := range []int{0, 1, attackers} {
			s := newScene(t, c, honestPeople+attackers, expected)
			influence := made(s.a.Influence(attackers, honestPeople+attackers))
			own, src := s.own(), rand.New(rand.NewChaCha8([32]byte{byte(expected), 3}))
			farthest := make([]float64, len(influence))
			var seen [][][]float64
			for n := range 300 {
				total, spare := make([]int, len(own)), expected*s.a.ReportMessages()
				for range attackers {
					for j := range own {
						bits := own[j]
						if c == plan.Shuffle && spare >= bits && src.IntN(2) == 0 { // all for another coordinate
							spare -= bits
							bits = 0
							total[src.IntN(len(own))] += src.IntN(own[j] + 1)
						}
						if c == plan.Shares {
							bits = 1<<s.a.EntryBits() - 1
						}
						total[j] += []int{0, bits, src.IntN(bits + 1)}[src.IntN(3)]
					}
				}
				if n < len(own)+2 { // a corner: none, all ones in an honest report's format, or the most on one coordinate
					clear(total)
					for _, of := range s.strongest(attackers, n-2) {
						for j := range own {
							total[j] += of.ones[j]
							if n == 1 {
								total[j] += own[j]
							}
						}
					}
				}
				seen = append(seen, s.decoded(total, attackers))
			}
			for n, sums := range seen {
				for r, of := range influence {
					for j, v := range sums[r] {
						if slack := 1e-9; v < of.Least[j]-slack || v > of.Most[j]+slack {
							t.Fatalf("%s, m = %d: attack %d adds %v to coordinate %d, stated are %v to %v", c, expected, n, v, j,
								of.Least[j], of.Most[j])
						}
					}
					for _, other := range seen[:n] {
						farthest[r] = max(farthest[r], distance(sums[r], other[r]))
					}
				}
			}
			for r, of := range influence {
				if farthest[r] > of.Distance*(1+1e-9) {
					t.Errorf("%s, m = %d, release %d: two sums are %v apart, stated is %v", c, expected, r, farthest[r], of.Distance)
				}
				reached := c != plan.Shuffle || expected != 1
				if reached && farthest[r] < of.Distance*(1-1e-9) {
					t.Errorf("%s, m = %d, release %d: no two sums are more than %v apart, stated is %v", c, expected, r,
						farthest[r], of.Distance)
				}
			}
		}
	}
}

// decoded is what so many devices add to the sums with these ones together, by the decoder alone: a difference of two
// decodings.
func (s *scene) decoded(ones []int, devices int) (sums [][]float64) {
	j := 0
	for r, e := range s.a.Encodings {
		noise := s.a.Releases()[r].ServerNoise()
		base, with := make([]uint64, len(e.Coordinates)), make([]uint64, len(e.Coordinates))
		for c := range e.Coordinates {
			with[c] = uint64(ones[j])
			j++
		}
		// The honest people are of the kind that leaves most room below the cut.
		before := made(e.Decode(base, honestPeople, noise))
		after := made(e.Decode(with, uint64(honestPeople+devices), noise))
		for c := range after {
			after[c] = float64(s.a.Plan.PerReport()) * (after[c] - before[c])
		}
		sums = append(sums, after)
	}
	return sums
}

// What is stated beside it of honest devices is the difference between the two ends of what they can report with the
// same noise, and the deviation is that of the sums that the analyzer publishes.
func TestInfluenceStandsBesideHonestDevicesAndNoise(t *testing.T) {
	for _, c := range plan.Channels() {
		s := newScene(t, c, honestPeople, 1)
		counts := &wire.Counts{Reports: honestPeople}
		for _, e := range s.a.Encodings {
			counts.Releases = append(counts.Releases, wire.ReleaseCounts{Ones: make([]uint64, len(e.Coordinates))})
		}
		published := made(deployment.Sums(s.a, counts))
		for r, of := range made(s.a.Influence(1, honestPeople)) {
			e := s.a.Encodings[r]
			var low, high []float64
			for _, x := range e.Coordinates {
				low, high = append(low, x.Offset), append(high, x.Offset+float64(x.Levels)/e.Scale)
			}
			least := made(e.Encode(nil, low, rand.NewChaCha8([32]byte{8})))
			most := made(e.Encode(nil, high, rand.NewChaCha8([32]byte{8})))
			for j := range least {
				if got := 3 * float64(most[j]-least[j]) / e.Scale; !closeTo(got, of.Honest[j]) {
					t.Errorf("%s: an honest device moves coordinate %d of release %d by %v, stated is %v", c, j, r, got, of.Honest[j])
				}
				if of.Honest[j] > of.Moves()[j] {
					t.Errorf("%s: an honest device does more than a dishonest one", c)
				}
				if want := math.Sqrt(published[r].Variance[j]); !closeTo(want, of.Deviation) {
					t.Errorf("%s: the deviation of release %d is %v, stated is %v", c, r, want, of.Deviation)
				}
			}
			if want := slices.Max(of.Moves()) / of.Deviation; !closeTo(of.Worst(), want) {
				t.Errorf("%s: the worst is %v deviations, stated is %v", c, want, of.Worst())
			}
		}
	}
}

// No devices move nothing, nobody is stated where nothing is summed, and more devices than reports are an error.
func TestInfluenceOfNobody(t *testing.T) {
	s := newScene(t, plan.Shuffle, honestPeople, 1)
	for _, of := range made(s.a.Influence(0, honestPeople)) {
		if of.Distance != 0 || slices.Max(of.Moves()) != 0 || slices.Max(of.Honest) != 0 {
			t.Errorf("no devices: %+v", of)
		}
	}
	for _, n := range []int{-1, honestPeople + 1} {
		if _, err := s.a.Influence(n, honestPeople); !errors.Is(err, plan.ErrPlan) {
			t.Errorf("%d devices of %d: %v, want ErrPlan", n, honestPeople, err)
		}
	}
	s.a.Plan.Curator = new(plan.Curator)
	if of, err := s.a.Influence(1, honestPeople); of != nil || err != nil {
		t.Errorf("of a curator: %v, %v", of, err)
	}
	s.a.Plan.Curator, s.a.Final = nil, true
	if of, err := s.a.Influence(1, honestPeople); of != nil || err != nil {
		t.Errorf("after the last round: %v, %v", of, err)
	}
}

// A count that reports and servers cannot make is cut, so that a cohort of dishonest devices alone moves a sum by no
// more than honest entries at their largest and all noise of servers: less than the proofs of shares let each of them
// say.
func TestInfluenceEndsWhereCountsAreCut(t *testing.T) {
	const devices = 12
	s := newScene(t, plan.Shares, devices, 1)
	of := made(s.a.Influence(devices, devices))[0]
	all, _ := s.sums(0, s.strongest(devices, 0))
	none, _ := s.sums(0, s.strongest(devices, -1))
	e := s.a.Encodings[0]
	noise := 3 * float64(s.a.Releases()[0].ServerNoise()) / e.Scale // at most, and it is in both sums
	for j, most := range of.Moves() {
		if got := all[0][j] - none[0][j]; got > most+1e-9 || got < most-noise-1e-9 {
			t.Errorf("coordinate %d moved by %v, stated is %v, with up to %v of noise", j, got, most, noise)
		}
		if want := 3 * float64(devices*e.MessagesAt(j)) / e.Scale; !closeTo(most, want+noise) {
			t.Errorf("coordinate %d: %v is stated, what can be counted is %v and %v of noise", j, most, want, noise)
		}
	}
}
