package channel

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/pkg/channel"
)

var (
	// ErrEarlier says that a device was counted in as many other epochs as it may be: one more part of it would spend
	// more than its budget.
	ErrEarlier = errors.New("channel: the device was counted in as many other epochs as it may be")
	// ErrNewcomer says that a device was not counted in the first round of its epoch.
	ErrNewcomer = errors.New("channel: the device was not counted in the first round of the epoch")
	// ErrSecondSet says that other devices were counted in a round before.
	ErrSecondSet = errors.New("channel: another set of devices was counted in this round before")
	// ErrOldState says that files are older than what was signed. Whoever went on could count a person twice.
	ErrOldState = errors.New("channel: the state folder is older than what this analyzer has signed, " +
		"and it must not go on: bring back the newest state folder, or start a new deployment")
	// ErrDamagedState says that files are not what was written.
	ErrDamagedState = errors.New("channel: the memory of the devices that were counted is damaged, " +
		"and the analyzer must not go on: bring back the newest state folder, or start a new deployment")
)

// Participants is the analyzer's durable memory of the devices that it counted, by epoch. A device is counted in as
// many epochs as it may be (Allow), once in each of their rounds, and only if it was counted in the first of them. No
// error says which device it is about. It takes 16 bytes of memory for each device of each epoch, and is safe for
// concurrent use. What is stored does not depend on how many epochs are allowed.
//
// The devices of an epoch are in a file, as hashes in ascending order, which say nothing of the order in which they
// came, and after them how many of them each issuer let in that were in no epoch before. One further file, which is
// written last, lists the rounds: what it does not list was never counted.
type Participants struct {
	disk       Disk
	deployment string

	mu      sync.RWMutex
	records int    // epochs of one device, at least 1
	period  uint64 // epochs in a row that records holds in; 0: all
	rounds  []countedRound
	epochs  map[uint64][]mark // of the first round of each epoch, in ascending order
	// issuers are how many of an epoch's devices were counted in none before, by the issuer that let them in.
	issuers map[uint64]map[sponsor]uint32
}

// mark is the start of a hash of a device's host and number. Nobody finds a device with the mark of another person's:
// that takes some 2^108 host keys for a million people.
type mark [16]byte

func markOf(p channel.Participant) mark {
	b := append([]byte("riffle/v1/participant\x00"), p.Host[:]...)
	h := sha256.Sum256(binary.BigEndian.AppendUint32(b, p.Number))
	return mark(h[:])
}

func compareMarks(a, b mark) int { return bytes.Compare(a[:], b[:]) }

// countedRound is what is remembered of one round.
type countedRound struct {
	Epoch   uint64
	Round   uint32
	Devices uint32
	Digest  [32]byte // SHA-256 of its marks and of what issuers let in
}

const countedRoundSize = 8 + 4 + 4 + 32

// OpenParticipants reads what is remembered of a deployment. counted are the epochs for which the audit log has counts
// of this analyzer that do not say destroyed: where one of them is not remembered the error wraps ErrOldState.
// Other errors wrap ErrDamagedState, or are the disk's.
func OpenParticipants(d Disk, deployment string, counted []uint64) (*Participants, error) {
	p := &Participants{disk: d, deployment: deployment, records: 1, epochs: map[uint64][]mark{},
		issuers: map[uint64]map[sponsor]uint32{}}
	if err := p.read(); err != nil {
		return nil, err
	}
	for _, epoch := range counted {
		if p.epochs[epoch] == nil {
			return nil, fmt.Errorf("%w: epoch %d was counted, and its devices are not known", ErrOldState, epoch)
		}
	}
	return p, nil
}

// Allow says how many epochs a device may be counted in, out of any period that follow each other; with period 0 out of
// all. Without it a device is counted in one epoch. Epochs are given to Add in their order.
func (p *Participants) Allow(records, period int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records, p.period = max(1, records), uint64(max(0, period))
}

// Check reports whether a device may be counted in an epoch: ErrEarlier, ErrNewcomer, or nil.
func (p *Participants) Check(epoch uint64, who channel.Participant) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.check(epoch, markOf(who))
}

func (p *Participants) check(epoch uint64, m mark) error {
	first, begun := p.epochs[epoch]
	if begun {
		if _, in := slices.BinarySearchFunc(first, m, compareMarks); !in {
			return ErrNewcomer
		}
		return nil // it was compared with the other epochs when the first round was counted
	}
	counted := 0
	for other, marks := range p.epochs {
		if p.period > 0 && other+p.period <= epoch {
			continue
		}
		if _, in := slices.BinarySearchFunc(marks, m, compareMarks); in {
			counted++
		}
	}
	if counted >= p.records {
		return ErrEarlier
	}
	return nil
}

// Add remembers the devices of a round, in any order, and returns once that is durable: nothing that depends on what
// they reported may leave before. It can be repeated with the same devices; with others the error is ErrSecondSet. A
// device that Check refuses is refused with Check's error, and a duplicate device with another one; then
// nothing is remembered. Other errors are the disk's.
func (p *Participants) Add(epoch uint64, round uint32, who []channel.Present) error {
	if len(who) == 0 {
		return errors.New("channel: no devices")
	}
	marks := make([]mark, len(who))
	for i := range who {
		marks[i] = markOf(who[i].Participant)
	}
	slices.SortFunc(marks, compareMarks)
	for i := 1; i < len(marks); i++ {
		if marks[i] == marks[i-1] {
			return errors.New("channel: duplicate device among those of a round")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	issuers := p.firstCounted(epoch, who)
	r := countedRound{epoch, round, uint32(len(marks)), digestOf(marks, issuers)}
	for _, known := range p.rounds {
		if known.Epoch == epoch && known.Round == round {
			if known != r {
				return fmt.Errorf("%w: round %d of epoch %d", ErrSecondSet, round, epoch)
			}
			return nil
		}
	}
	for _, m := range marks {
		if err := p.check(epoch, m); err != nil {
			return err
		}
	}
	_, begun := p.epochs[epoch]
	if !begun {
		if err := p.disk.Store(epochFile(epoch), func(w io.Writer) error {
			return writeEpoch(w, marks, issuers)
		}); err != nil {
			return err
		}
	}
	rounds := append(slices.Clip(p.rounds), r)
	if err := p.disk.Store(roundsFile, func(w io.Writer) error {
		_, err := w.Write(p.encode(rounds))
		return err
	}); err != nil {
		return err
	}
	p.rounds = rounds
	if !begun {
		p.epochs[epoch], p.issuers[epoch] = marks, issuers
	}
	return nil
}

// Devices is how many devices were counted in an epoch's first round; 0 if none was.
func (p *Participants) Devices(epoch uint64) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.epochs[epoch])
}

const (
	roundsFile   = "participants"
	roundsDomain = "riffle/v1/participants\x00"
)

func epochFile(epoch uint64) string { return fmt.Sprintf("participants-%d", epoch) }

func writeEpoch(w io.Writer, marks []mark, issuers map[sponsor]uint32) error {
	b := bufio.NewWriter(w)
	for i := range marks {
		if _, err := b.Write(marks[i][:]); err != nil {
			return err
		}
	}
	if _, err := b.Write(appendIssuers(nil, issuers)); err != nil {
		return err
	}
	return b.Flush()
}

func digestOf(marks []mark, issuers map[sponsor]uint32) (digest [32]byte) {
	h := sha256.New()
	for i := range marks {
		h.Write(marks[i][:])
	}
	h.Write(appendIssuers(nil, issuers))
	h.Sum(digest[:0])
	return digest
}

// encode is the list of rounds as it is in the file: domain, length and text of the deployment's name, the rounds,
// and SHA-256 of all that.
func (p *Participants) encode(rounds []countedRound) []byte {
	b := append([]byte(roundsDomain), byte(len(p.deployment)))
	b = append(b, p.deployment...)
	for _, r := range rounds {
		b = binary.BigEndian.AppendUint64(b, r.Epoch)
		b = binary.BigEndian.AppendUint32(b, r.Round)
		b = binary.BigEndian.AppendUint32(b, r.Devices)
		b = append(b, r.Digest[:]...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode reads what encode wrote.
func (p *Participants) decode(b []byte) (rounds []countedRound, err error) {
	head := p.encode(nil)
	head = head[:len(head)-sha256.Size]
	if len(b) < len(head)+sha256.Size {
		return nil, fmt.Errorf("%w: the list of rounds has %d bytes", ErrDamagedState, len(b))
	}
	body, sum := b[:len(b)-sha256.Size], [sha256.Size]byte(b[len(b)-sha256.Size:])
	if sha256.Sum256(body) != sum {
		return nil, fmt.Errorf("%w: the list of rounds has another checksum", ErrDamagedState)
	}
	if !bytes.HasPrefix(body, head) {
		return nil, fmt.Errorf("%w: it is another deployment's", ErrDamagedState)
	}
	body = body[len(head):]
	if len(body)%countedRoundSize != 0 {
		return nil, fmt.Errorf("%w: the list of rounds ends inside an entry", ErrDamagedState)
	}
	for ; len(body) > 0; body = body[countedRoundSize:] {
		rounds = append(rounds, countedRound{
			Epoch: binary.BigEndian.Uint64(body), Round: binary.BigEndian.Uint32(body[8:]),
			Devices: binary.BigEndian.Uint32(body[12:]), Digest: [32]byte(body[16:]),
		})
	}
	return rounds, nil
}

func (p *Participants) read() error {
	f, err := p.disk.Open(roundsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if p.rounds, err = p.decode(b); err != nil {
		return err
	}
	for _, r := range p.rounds {
		if _, known := p.epochs[r.Epoch]; known {
			continue
		}
		if p.epochs[r.Epoch], p.issuers[r.Epoch], err = p.readEpoch(r); err != nil {
			return err
		}
	}
	return nil
}

// readEpoch reads the devices of an epoch's first round, and how many of them issuers let in.
func (p *Participants) readEpoch(r countedRound) ([]mark, map[sponsor]uint32, error) {
	damaged := func(err error) error { return fmt.Errorf("%w: devices of epoch %d: %w", ErrDamagedState, r.Epoch, err) }
	f, err := p.disk.Open(epochFile(r.Epoch))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, damaged(err)
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size := int64(r.Devices) * int64(len(mark{}))
	most := size + int64(r.Devices)*issuerTallySize // each device has one issuer at most
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, nil, damaged(err)
	case int64(len(b)) < size:
		return nil, nil, damaged(errors.New("too few"))
	}
	marks := make([]mark, 0, r.Devices)
	for m := range slices.Chunk(b[:size], len(mark{})) {
		marks = append(marks, mark(m))
	}
	issuers, ok := parseIssuers(b[size:])
	if !ok || digestOf(marks, issuers) != r.Digest {
		return nil, nil, damaged(errors.New("they are not those that were written"))
	}
	return marks, issuers, nil
}

// SponsorQuota is how many of a cohort of this size may be devices of one sponsor at a share, where 0 means 1: the
// whole devices within it, 50 of 101 at one half, and always one. A share that is not a binary fraction counts as the
// decimal that it was written as.
func SponsorQuota(share float64, size uint32) int {
	const rounding = 1e-9
	return max(1, int(math.Floor(cmp.Or(share, 1)*float64(size)+rounding)))
}
