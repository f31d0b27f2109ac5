package uniform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Fault is a way to shuffle badly, planted to see that it is found.
type Fault string

// The faults.
const (
	Identity   Fault = "identity"    // the order of arrival
	Rotation   Fault = "rotation"    // rotated by a uniformly random amount
	Batches    Fault = "batches"     // two halves of the arrivals, each permuted, one behind the other
	ChunkLocal Fault = "chunk-local" // each chunk of arrivals permuted in its place
	Together   Fault = "together"    // the items of each report stay together, in a random order; so do the reports
	Modulo     Fault = "modulo"      // Fisher-Yates with the remainders of words of 8 bits, of 16 above 256 items
	AnyPlace   Fault = "any-place"   // each item in turn changes places with one anywhere
	OneCycle   Fault = "one-cycle"   // Fisher-Yates that never draws the item itself (Sattolo)
	Repeated   Fault = "repeated"    // one random order for all releases
	Stays3     Fault = "stays-3"     // each item stays in its place with probability 3 %, the others are permuted
	Early3     Fault = "early-3"     // an item of the first half is 3 % likelier to leave next than another one
	Skipped3   Fault = "skipped-3"   // 3 % of the releases leave as they came
)

// Faults are all of them.
func Faults() []Fault {
	return []Fault{
		Identity, Rotation, Batches, ChunkLocal, Together, Modulo, AnyPlace, OneCycle, Repeated, Stays3, Early3,
		Skipped3,
	}
}

// bias is that of the faults with a 3 in their names.
const bias = 0.03

// Explained says in words what the fault does; empty: there is no such fault.
func (f Fault) Explained() string {
	return map[Fault]string{
		Identity:   "items leave as they came",
		Rotation:   "rotated by a random amount",
		Batches:    "two halves, each shuffled, one behind the other",
		ChunkLocal: "each chunk of arrivals is shuffled in its place",
		Together:   "a report's items stay together in a random order, and the reports are shuffled",
		Modulo:     "Fisher-Yates with remainders of words of 8 bits, of 16 above 256 items",
		AnyPlace:   "every item in turn changes places with one anywhere",
		OneCycle:   "Fisher-Yates that never draws the item itself",
		Repeated:   "one random order for all releases",
		Stays3:     "each item stays in its place with probability 3 %",
		Early3:     "an item of the first half is 3 % likelier to leave next than another one",
		Skipped3:   "3 % of the releases are not shuffled",
	}[f]
}

// Planted is a shuffler with a fault.
type Planted struct {
	fault    Fault
	src      protocol.Source
	rng      *rand.Rand
	repeated map[int][]int // by size
}

// Plant makes a shuffler with a fault; an empty one shuffles as it should. All draws come from the source.
func Plant(f Fault, src protocol.Source) (*Planted, error) {
	if f != "" && f.Explained() == "" {
		var names []string
		for _, known := range Faults() {
			names = append(names, string(known))
		}
		return nil, fmt.Errorf("there is no fault %q; there are %s", f, strings.Join(names, ", "))
	}
	return &Planted{fault: f, src: src, rng: rand.New(src), repeated: map[int][]int{}}, nil
}

// Shape is what is known of a release before its order is.
type Shape struct {
	Items  int
	Report int // items of one report in a row; 0: not known
	Chunk  int // items of a chunk that leaves; 0: not known
}

// Shuffle makes the next release.
func (p *Planted) Shuffle(s Shape) *Release {
	r := &Release{Order: make([]int, s.Items)}
	for i := range r.Order {
		r.Order[i] = i
	}
	if s.Report > 0 {
		for i := range r.Order {
			r.Reports = append(r.Reports, i/s.Report)
		}
	}
	if s.Chunk > 0 {
		for rest := s.Items; rest > 0; rest -= s.Chunk {
			r.Chunks = append(r.Chunks, min(rest, s.Chunk))
		}
	}
	p.shuffle(r.Order, s)
	return r
}

func (p *Planted) shuffle(o []int, s Shape) {
	n := len(o)
	if n < 2 {
		return
	}
	switch p.fault {
	case Identity:
	case Rotation:
		by := p.rng.IntN(n)
		for i := range o {
			o[i] = (i + by) % n
		}
	case Batches:
		protocol.Permute(o[:n/2], p.src)
		protocol.Permute(o[n/2:], p.src)
	case ChunkLocal:
		chunk := s.Chunk
		if chunk < 2 || chunk >= n {
			chunk = max(2, int(math.Sqrt(float64(n))))
		}
		for rest := o; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			protocol.Permute(rest[:min(chunk, len(rest))], p.src)
		}
	case Together:
		p.together(o, max(2, s.Report))
	case Modulo:
		bits := uint64(8)
		if n > 1<<bits {
			bits = 16
		}
		for i := n - 1; i > 0; i-- {
			j := p.src.Uint64() >> (64 - bits) % uint64(i+1)
			o[i], o[j] = o[j], o[i]
		}
	case AnyPlace:
		for i := range o {
			j := p.rng.IntN(n)
			o[i], o[j] = o[j], o[i]
		}
	case OneCycle:
		for i := n - 1; i > 0; i-- {
			j := p.rng.IntN(i)
			o[i], o[j] = o[j], o[i]
		}
	case Repeated:
		if p.repeated[n] == nil {
			p.repeated[n] = p.rng.Perm(n)
		}
		copy(o, p.repeated[n])
	case Stays3:
		p.stays(o)
	case Early3:
		p.early(o)
	case Skipped3:
		if p.rng.Float64() >= bias {
			protocol.Permute(o, p.src)
		}
	default:
		protocol.Permute(o, p.src)
	}
}

// together permutes whole reports, and each in itself.
func (p *Planted) together(o []int, each int) {
	reports := make([]int, (len(o)+each-1)/each)
	for i := range reports {
		reports[i] = i
	}
	protocol.Permute(reports, p.src)
	at := 0
	for _, r := range reports {
		begin := at
		for i := r * each; i < min(len(o), (r+1)*each); i++ {
			o[at] = i
			at++
		}
		protocol.Permute(o[begin:at], p.src)
	}
}

// stays permutes those that do not stay.
func (p *Planted) stays(o []int) {
	var places, items []int
	for i := range o {
		if p.rng.Float64() >= bias {
			places, items = append(places, i), append(items, i)
		}
	}
	protocol.Permute(items, p.src)
	for k, place := range places {
		o[place] = items[k]
	}
}

// early draws item by item from both halves.
func (p *Planted) early(o []int) {
	n := len(o)
	first, second := append([]int(nil), o[:n/2]...), append([]int(nil), o[n/2:]...)
	protocol.Permute(first, p.src)
	protocol.Permute(second, p.src)
	for i := range o {
		weight := (1 + bias) * float64(len(first))
		from := &second
		if p.rng.Float64()*(weight+float64(len(second))) < weight {
			from = &first
		}
		o[i], *from = (*from)[0], (*from)[1:]
	}
}
