// Package checkpoint is the format of checkpoints: how the state of a computation is written to a
// folder so that it survives the loss of the process and of the machine, and how it is read back.
// The root package calls it. It decides what is written in which order; a file system does so, and
// tests replace that by one that crashes.
//
// A folder has two kinds of files. A data file, data-N, has blocks of data. A manifest,
// checkpoint-N, says which blocks of which data files are the state, with a checksum of each, and
// whose state it is. Blocks that did not change are not written again: a manifest refers to data
// files of earlier checkpoints.
//
// A checkpoint is written in this order: the data file, its sync, the manifest under a temporary
// name, its sync, the sync of the folder, the manifest's name, the sync of the folder. It exists
// once its manifest has its name. Only then files go that neither it nor the checkpoint before it
// needs, so that at every moment two checkpoints are whole, once there were two. Where there is no
// room for a third, the older one goes first.
//
// Files are not trusted: everything in them is checked before it is used, nothing is allocated by
// their word but the manifest itself, and what is wrong with one is an error that says so.
//
// # What is written
//
// State is divided into blocks of 1 MiB. The caller (saver.go of the root package) copies the state
// while the computation waits; the copy stays and the next checkpoint compares with it, block by
// block. If the files hold more than twice what is needed, or are more than 200, all of the state
// is written anew. Blocks in a row are written by one call of up to 128 MiB. Checksums are CRC32C
// by the processor's instruction; inputs of a graph are identified by SHA-256.
//
// Reading takes the newest checkpoint whose manifest and blocks are what they were. One that is not
// is reported with the reason, and the one before is taken.
//
// The package decides the order of operations and performs none: its tests run it on a folder that
// crashes after each.
//
// Files: checkpoint.go (the types), manifest.go (the manifest), store.go (writing, reading,
// removing).
package checkpoint
