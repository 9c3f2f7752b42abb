// Package cut decides how work is divided: which device gets which range, how many tasks a range
// becomes, which short tasks become one, and what the graph made from that is predicted to take.
//
// All of it is computed from a Knowledge, a copy of what is known of the machine at one time, so
// that a decision can be repeated and tested without devices. Plan is the whole path:
//
//	Items ─► Split ─► Tasks ─► the caller's graph ─► Predict ─► choose ─► settle ─► Plan
//	                    ▲                                          │
//	                    └──────── for each set of devices ◄────────┘
//
// # One device or several
//
// Predict simulates a graph and corrects the result by how far off the predictions of graphs of the
// same kernels and size were on the same devices. Split compares one device with several before
// there is a graph. Plan divides the work for each set of devices worth considering (choose.go):
// the best devices alone, the fastest kind of device, the two fastest kinds, and so on. Then it
// picks a set:
//
//   - The measured times of a set (machine.Trials: a mean of the last runs, the first two left out)
//     replace its prediction once there are three.
//   - A larger set has to gain more than is uncertain about it. A set in use stays until it is
//     measured to be slower.
//   - A set with fewer runs is tried if it is predicted to take less than 1.5 times as long as the
//     best. One that was slower is tried again after 64 runs on others, or after 8 if it may still be
//     the best, and so rarely that this costs 1 % of the time, or 2 %.
//
// The runtime then prefers that set for the next run of the graph (engine.RunOptions.Rather): a
// task goes to another device only if none of the set can take it.
//
// # How many tasks
//
// On a device with its own memory, ranges that need nothing of one another (sched.Items.Streamed)
// become as many tasks as are predicted to end first if one lane copies in, one computes and one
// copies out (pipelined): equal tasks, equal ones between two halves, ever smaller ones, or one. If
// a task of the graph does not fit in a device's memory, all ranges are halved, up to six times.
//
// Short tasks that can only run one after another become one task (fuse.go): tasks predicted to
// take less than 50 µs, up to 200 µs and 8 MiB together.
package cut
