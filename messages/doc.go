// Package messages holds riffle.v1, the schema of every byte that Riffle sends. Its subpackage rifflev1 is the Go
// code that is generated from the schema. The command
//
//	go generate ./messages
//
// generates it anew. It needs protoc (Debian: protobuf-compiler) on the path, and builds the pinned protoc-gen-go
// itself.
package messages

//go:generate ./generate.sh
