// Package oip has the messages and the gRPC service of the Open Inference Protocol, version 2,
// as KServe describes them in grpc_predict_v2.proto; the Go code is made from that.
//
// The file is python/kserve/kserve/protocol/grpc/grpc_predict_v2.proto of the Go module
// github.com/kserve/kserve, v0.16.0, unchanged: the published protocol, and the orders to load
// and unload models that KServe's own server and clients have beside it. KServe is licensed
// under the Apache License 2.0, which is in LICENSE.
package oip

//go:generate ./generate.sh
