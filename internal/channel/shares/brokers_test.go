package shares

import "github.com/riffle-dp/riffle/internal/bus"

// toMix is the shuffler's broker.
func (s *scene) toMix() MixingBroker { return mixingOver(s.shuffler.Streams) }

// toCount is the analyzer's broker.
func (s *scene) toCount() CountingBroker { return countingOver(s.analyzer.Streams) }

func mixingOver(s bus.Streams) MixingBroker {
	return struct {
		*bus.MixedStream
		*bus.PreparedStream
		*bus.AuditStream
	}{s.Mixed, s.Prepared, s.Audit}
}

func countingOver(s bus.Streams) CountingBroker {
	return struct {
		*bus.MixedStream
		*bus.PreparedStream
		*bus.AuditStream
	}{s.Mixed, s.Prepared, s.Audit}
}
