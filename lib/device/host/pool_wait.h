// Limits how long the threads of the compute pool spin before they sleep.
//
// oneDNN and our operators share libgomp's pool. After every operator (some 90 per BERT-base
// forward pass) its threads wait for the slowest one, and then for the next operator. By default
// libgomp spins 300,000 rounds, which takes milliseconds. This costs nothing if the pool has its
// cores to itself. If others share them (a polling packet worker, a second group, a compiler),
// spinning threads use up the time that the slowest thread needs.
//
// Measured with two threads on two busy cores (load 13), BERT-base at 1 × 128 in bf16: 3,100 ms
// with libgomp's default, 350 ms with 100 to 1,000 rounds. On idle cores: 62 ms with 300 rounds or
// more, 63 ms with none.
//
// Batches that begin on idle cores need more rounds. Measured in the appliance beside an adaptive
// worker, with 20 requests/s of MiniLM's size and 32 tokens. A batch took 7.4 ms with 1,000 rounds
// (some 20 µs), 2.8 ms with 30,000 and 2.9 ms with 1,000,000.
//
// A flood needs fewer: spinning takes the CPU time in which a worker would drop the flood. A pool
// that shares its CPUs with workers (pipeline/lcores.h) therefore spins 30,000 rounds, and 100
// during a flood: execution/spin_choice.h decides, PoolThrottle switches. Measured with BERT-tiny
// and 64 tokens on two CPUs that compilers used, too; medians of three runs in turn. Each cell has
// the answers/s of all tenants, and p50 and p99 of a quiet tenant in ms:
//
//                               30,000 (before)     100 rounds          chosen (now)
//   flood of 6,000/s              143   78   112      931  2.7    32    1,286  2.7    22
//   flood of 3,000/s              233   79   156    1,347  2.6    41    1,287  2.9    18
//   flood against an objective    436   35   192      835  3.4    15    1,225  2.3    12
//   flood over the quota           67   21    91       67  1.4   6.4       67  1.4   7.4
//   flood of damaged datagrams     48  4.0   173       47  2.1   6.3       47  1.6   5.6
//   flood of half-sent requests    38  629   998       46  2.1   9.6       47  2.0   7.9
//
// Beside loads of models, too, the pool spins 100 rounds. A program that computed at SCHED_IDLE for
// 120 ms of each second raised the p99 of MiniLM at 29/s from 27 to 88 ms, and loads raised it to
// 94 ms; with 1,000 rounds to 42 and 28 ms. Why spinning costs so much there is not proven: threads
// that each had one CPU were no better, 106 ms. 1,000 rounds instead of 100 cost floods a tenth to
// a third of their answers.
//
// Without a flood the pool still spins 30,000 rounds. The same figures on otherwise idle CPUs,
// medians of two runs in turn, before pool_placement.h kept the pool's threads apart:
//
//                               30,000              100 rounds
//   flood of 6,000/s            1,540  2.4    31    1,429  1.6   6.4
//   64 requests at once         2,299   29    82    1,562   37    85
//   16 requests at once         2,987  5.3    11    1,713  8.1    16
//   1,000/s                       990  1.0   155      990  113   361
//   20/s of MiniLM, 32 tokens      20  3.4   6.0       20  5.8   7.9  (none instead of 100 rounds)
//
// The kernel's account of how long the pool's thread waits for a CPU was tried as the criterion,
// and rejected: on idle CPUs the wait is 33 % of the thread's time in a flood, and 39 % at
// 1,000/s, where spinning pays.
#pragma once

namespace itif::device {

// Limits the spinning to 30,000 rounds. Call it first in main(): libgomp reads its environment at
// load time, so this sets GOMP_SPINCOUNT and executes the program again. It does nothing if
// OMP_WAIT_POLICY or GOMP_SPINCOUNT is set already, by a service manager for example. Test programs
// need not call it.
void limit_pool_spinning(char** argv);

// Returns true if limit_pool_spinning() has set the limit, and the environment did not.
bool chooses_pool_spinning();

}  // namespace itif::device
