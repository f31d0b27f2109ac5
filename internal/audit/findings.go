package audit

import (
	"bytes"
	"fmt"
)

// findings is what an audit has to say: breaches, each with the entry that proves it, and notes. Everything that judges
// adds to the same, so that they come in the order in which they are found.
type findings struct {
	report    *Report
	tolerance float64 // see Options
}

func (f *findings) breach(what What, entry, release, format string, v ...any) {
	f.report.breach(Breach{What: what, Entry: entry, Release: release, Detail: fmt.Sprintf(format, v...)})
}

// wrong is a breach that a statement proves.
func (f *findings) wrong(what What, s *statement, format string, v ...any) {
	f.breach(what, s.name, s.release(), format, v...)
}

// about holds a statement to the round's announcement.
func (f *findings) about(s *statement, announcement []byte, r *round) {
	if !bytes.Equal(announcement, r.digest[:]) {
		f.wrong(WrongAnnouncement, s, "it is about the announcement %x, and %s has the digest %x", short(announcement),
			r.name, short(r.digest[:]))
	}
}

// numbers reports a difference that rounding does not explain, or that the options do not tolerate.
func (f *findings) numbers(what What, s *statement, name string, want, got any) (same bool) {
	d := compare(want, got)
	switch {
	case d.path == "" && d.worst == 0:
		return true
	case d.path == "" && d.worst <= f.tolerance:
		f.report.note("Numbers were compared with a relative tolerance of %v.", f.tolerance)
		return true
	case d.path == "" && d.worst <= RoundingTolerance:
		f.wrong(what, s, "%s is not the recomputed one bit for bit: %s is %v, recomputed %v; all of it agrees to "+
			"%.1e, so if the analyzer runs on another processor architecture, allow for rounding: --tolerance %v", name,
			d.worstPath, d.got, d.want, d.worst, RoundingTolerance)
	case d.path == "":
		f.wrong(what, s, "%s does not follow from what is logged: %s is %v, recomputed %v", name, d.worstPath, d.got,
			d.want)
	default:
		f.wrong(what, s, "%s does not follow from what is logged: %s %s", name, d.path, d.reason)
	}
	return false
}

// least is the least that a recomputed epsilon can be by what rounding is tolerated.
func (f *findings) least(epsilon float64) float64 { return epsilon * (1 - f.tolerance) }

// short is the start of a digest or key, enough to tell it from others.
func short(b []byte) []byte { return b[:min(len(b), 8)] }
