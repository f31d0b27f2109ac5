// Package messages is the home of riffle.v1, the schema of every byte that Riffle puts on a wire.
// The generated Go is in the package rifflev1 below it; regenerate it with
//
//	go generate ./messages
//
// which needs protoc (Debian: protobuf-compiler) on the path and builds the pinned protoc-gen-go itself.
package messages

//go:generate ./generate.sh
