package main

import (
	"encoding/binary"
	"encoding/json"

	bolt "go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/pkg/issuer"
)

// deposits are the mailbox's store. Each change is on the disk before it returns.
type deposits struct{ db *bolt.DB }

func (s deposits) in(f func(*bolt.Bucket) error) error {
	return s.db.Update(func(t *bolt.Tx) error {
		b, err := t.CreateBucketIfNotExists([]byte("deposits"))
		if err != nil {
			return err
		}
		return f(b)
	})
}

func (s deposits) Put(name, value []byte) error {
	return s.in(func(b *bolt.Bucket) error { return b.Put(name, value) })
}

func (s deposits) Get(name []byte) (value []byte, err error) {
	err = s.in(func(b *bolt.Bucket) error {
		value = append(value, b.Get(name)...)
		return nil
	})
	return value, err
}

func (s deposits) Delete(name []byte) error {
	return s.in(func(b *bolt.Bucket) error { return b.Delete(name) })
}

func (s deposits) Each(f func(name, value []byte) error) error {
	return s.in(func(b *bolt.Bucket) error { return b.ForEach(f) })
}

// entries are the issuer's store, in the order in which they were appended.
type entries struct{ db *bolt.DB }

func (s entries) Load(f func(issuer.Entry) error) error {
	return s.db.View(func(t *bolt.Tx) error {
		b := t.Bucket([]byte("issued"))
		if b == nil {
			return nil
		}
		return b.ForEach(func(_, value []byte) error {
			var e issuer.Entry
			if err := json.Unmarshal(value, &e); err != nil {
				return err
			}
			return f(e)
		})
	})
}

func (s entries) Append(e issuer.Entry) error {
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.db.Update(func(t *bolt.Tx) error {
		b, err := t.CreateBucketIfNotExists([]byte("issued"))
		if err != nil {
			return err
		}
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		return b.Put(binary.BigEndian.AppendUint64(nil, n), value)
	})
}
