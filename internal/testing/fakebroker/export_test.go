package fakebroker

// LimitPending sets how many deliveries of a stream's consumer may wait for their acknowledgement.
func (b *Broker) LimitPending(stream string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[stream].consumer.config.MaxAckPending = n
}
