package cluster

import "testing"

// A cohort of a run may be of any size: no stream refuses its reports, what is exchanged of them, or what leaves.
func TestNoStreamIsTooSmallForACohort(t *testing.T) {
	limits := Options{Devices: 10, Workers: map[string]int{Shuffler: 2}}.limits()
	for name, most := range map[string]int64{
		"reports": limits.MaxReportBytes, "what mixing processes exchange": limits.MaxMixingBytes,
		"what leaves": limits.MaxMixedBytes,
	} {
		if most >= 0 {
			t.Errorf("%s: at most %d bytes", name, most)
		}
	}
}
