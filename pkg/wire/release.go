package wire

import (
	"bytes"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

func checkKeySet(k *KeySet) error {
	if err := CheckDeployment(k.Deployment); err != nil {
		return err
	}
	if k.Number == 0 {
		return field("number", "is 0, must be at least 1")
	}
	if n := len(k.Keys); n == 0 || n > MaxKeys {
		return field("keys", "has %d entries, must have 1 to %d", n, MaxKeys)
	}
	for i, key := range k.Keys {
		if err := seal.CheckHPKEPublic(key); err != nil {
			return field(fmt.Sprintf("keys[%d]", i), "is refused: %v", err)
		}
		for j := range i {
			if bytes.Equal(key, k.Keys[j]) {
				return field(fmt.Sprintf("keys[%d]", i), "is keys[%d] again", j)
			}
		}
	}
	return nil
}

func checkManifest(m *Manifest) error {
	if err := checkPlace(m.Deployment, m.Epoch, m.Round); err != nil {
		return err
	}
	if err := checkLength("announcement", m.Announcement, digestSize); err != nil {
		return err
	}
	if m.Reports > m.Enrolled {
		return field("reports", "is %d, but only %d enrolled", m.Reports, m.Enrolled)
	}
	if err := checkRefused(m); err != nil {
		return err
	}
	switch m.Outcome {
	case Released:
		return checkReleased(m)
	case Destroyed:
		if m.NoiseMessages != 0 || m.Chunks != 0 || len(m.ChunksDigest)+len(m.MessagesRoot) != 0 {
			return field("outcome",
				"is destroyed, but the manifest commits to what left: %d chunks, %d messages of noise",
				m.Chunks, m.NoiseMessages)
		}
		if m.Messages > 0 && m.Reports == 0 {
			return field("messages", "is %d of no report", m.Messages)
		}
		if len(m.ReportsDigest) != 0 {
			return checkLength("reports_digest", m.ReportsDigest, digestSize)
		}
		return nil
	}
	return field("outcome", "is %d, which is not known", m.Outcome)
}

func checkReleased(m *Manifest) error {
	if m.Reports == 0 {
		return field("reports", "is 0 in a release")
	}
	if m.Messages <= m.NoiseMessages {
		return field("messages", "is %d, must be above noise_messages, %d", m.Messages, m.NoiseMessages)
	}
	reports, of := uint64(m.Reports), m.Messages-m.NoiseMessages
	if of%reports != 0 || of/reports > plan.MaxReportMessages {
		return field("messages", "is %d, of them %d of reports: must be the same 1 to %d for each of %d reports",
			m.Messages, of, plan.MaxReportMessages, m.Reports)
	}
	if c := uint64(m.Chunks); c == 0 || c > m.Messages || (m.Messages+MaxChunkMessages-1)/MaxChunkMessages > c {
		return field("chunks", "is %d for %d messages of at most %d a chunk", m.Chunks, m.Messages, MaxChunkMessages)
	}
	if err := checkLength("chunks_digest", m.ChunksDigest, digestSize); err != nil {
		return err
	}
	if err := checkLength("reports_digest", m.ReportsDigest, digestSize); err != nil {
		return err
	}
	return checkLength("messages_root", m.MessagesRoot, digestSize)
}

func checkRefused(m *Manifest) error {
	slots := uint64(m.Reports)
	for i, r := range m.Refused {
		at := func(name string) string { return fmt.Sprintf("refused[%d].%s", i, name) }
		if r.Reason <= NoRefusal || int(r.Reason) > len(Refusals()) {
			return field(at("reason"), "is %d, which is not known", r.Reason)
		}
		if i > 0 && r.Reason <= m.Refused[i-1].Reason {
			return field(at("reason"), "must come after those of smaller numbers, once each")
		}
		if r.Reports == 0 {
			return field(at("reports"), "is 0, must be at least 1")
		}
		if slots += uint64(r.TakenOut); uint64(r.TakenOut) > r.Reports || slots > uint64(m.Enrolled) {
			return field(at("taken_out"), "is %d of %d refused: with the reports that are left and those before it "+
				"they have %d slots, and %d enrolled", r.TakenOut, r.Reports, slots, m.Enrolled)
		}
	}
	return nil
}

func checkAccepted(a *Accepted) error {
	if err := checkPlace(a.Deployment, a.Epoch, a.Round); err != nil {
		return err
	}
	if err := checkLength("announcement", a.Announcement, digestSize); err != nil {
		return err
	}
	return checkLength("set", a.Set, digestSize)
}

func checkSummed(s *Summed) error {
	if err := checkPlace(s.Deployment, s.Epoch, s.Round); err != nil {
		return err
	}
	if err := checkLength("announcement", s.Announcement, digestSize); err != nil {
		return err
	}
	if s.Reports == 0 {
		return field("reports", "is 0, must be at least 1")
	}
	if err := checkLength("set", s.Set, digestSize); err != nil {
		return err
	}
	return checkLength("share", s.Share, digestSize)
}

func checkCounts(c *Counts) error {
	if err := checkPlace(c.Deployment, c.Epoch, c.Round); err != nil {
		return err
	}
	if err := checkLength("announcement", c.Announcement, digestSize); err != nil {
		return err
	}
	if err := checkLength("manifest", c.Manifest, digestSize); err != nil {
		return err
	}
	if c.Destroyed {
		if len(c.Releases) != 0 {
			return field("releases", "must be absent where the cohort was destroyed")
		}
		return nil
	}
	if c.Reports == 0 {
		return field("reports", "is 0 in a release")
	}
	if n := len(c.Releases); n == 0 || n > MaxReleases {
		return field("releases", "has %d entries, must have 1 to %d", n, MaxReleases)
	}
	for i, r := range c.Releases {
		if len(r.Curated) > 0 {
			if err := checkCurated(r, len(c.Releases)); err != nil {
				return inside(fmt.Sprintf("releases[%d].", i), err)
			}
			continue
		}
		if len(r.Entries) > 0 {
			if err := checkEntries(r, len(c.Releases)); err != nil {
				return inside(fmt.Sprintf("releases[%d].", i), err)
			}
			continue
		}
		if n := len(r.Ones); n == 0 || n > MaxCoordinates {
			return field(fmt.Sprintf("releases[%d].ones", i), "has %d entries, must have 1 to %d", n, MaxCoordinates)
		}
		for j, ones := range r.Ones {
			if limit := uint64(c.Reports)*plan.MaxReportMessages + 2*plan.MaxServerNoise; ones > limit {
				return field(fmt.Sprintf("releases[%d].ones[%d]", i, j),
					"is %d, more than %d reports and two servers' noise can hold", ones, c.Reports)
			}
		}
	}
	return nil
}

// checkEntries refuses entries of reports beside another release, or more or larger ones than a round can have.
func checkEntries(r ReleaseCounts, releases int) error {
	if releases != 1 || len(r.Ones) > 0 {
		return field("entries", "cannot be beside counts of ones")
	}
	if n := len(r.Entries); n > MaxEntries {
		return field("entries", "has %d numbers, at most %d are allowed", n, MaxEntries)
	}
	for i, v := range r.Entries {
		if v>>plan.MaxEntryBits(plan.Local) > 0 {
			return field(fmt.Sprintf("entries[%d]", i), "is %d, must have at most %d bits", v,
				plan.MaxEntryBits(plan.Local))
		}
	}
	return nil
}

// maxCurated bounds each number of a curator's release, so that a float64 holds it exactly.
const maxCurated = 1<<53 - 1

// checkCurated refuses a curator's release beside another, or with a number out of range.
func checkCurated(r ReleaseCounts, releases int) error {
	if releases != 1 || len(r.Ones)+len(r.Entries) > 0 {
		return field("curated", "cannot be beside counts of ones or entries")
	}
	if n := len(r.Curated); n > 4*MaxCoordinates {
		return field("curated", "has %d entries, at most %d are allowed", n, 4*MaxCoordinates)
	}
	for i, v := range r.Curated {
		if v > maxCurated || v < -maxCurated {
			return field(fmt.Sprintf("curated[%d]", i), "is %d, must be at most 2^53-1 in size", v)
		}
	}
	return nil
}
