// Package arena is host memory that several processes map: one anonymous file, as large as may ever
// be needed and filled on demand. One process makes it and hands out extents; others join it by
// descriptor and are told offsets. Extents lie in segments that never move or shrink, so that
// whoever page-locks a segment does it once.
//
// Who uses an extent, and until when, is decided above. Linux only: elsewhere Open says so.
//
// The arena may grow to what the process may use: the least of what the machine has, what every
// control group around the process allows, and what limits on file size (ulimit -f) and address
// space (ulimit -v) leave. Where that is too little, CPU devices work without an arena. Workers
// page-lock it in spans when first used. Resident data and buffers of the program (NewBuffer) have
// their home there; copies of other memory are staged through it.
package arena
