// How long the threads of the compute pool spin for each other before they sleep.
//
// oneDNN and our operators share libgomp's pool. At the end of every operator (some 90 times a BERT-base
// forward pass) its threads wait for the slowest, and for the next one. libgomp spins 300,000 rounds,
// milliseconds, unless told otherwise. On cores of its own that is as good as anything. When the pool
// shares its cores (a packet worker that polls, a second group, a compiler), spinners burn the time
// that the thread they wait for needs. Measured with two threads on two busy cores (load 13),
// BERT-base at 1 × 128 in bf16: 3,100 ms with libgomp's default, 350 ms with 100 to 1,000 rounds. On
// idle cores 62 ms with 300 rounds and more, 63 with none. But a batch that begins on cores that have
// rested needs longer: in the appliance, 20 requests/s of MiniLM's size and 32 tokens beside an adaptive
// worker, a batch took 7.4 ms with 1,000 rounds (some 20 µs), 2.8 with 30,000 and 2.9 with 1,000,000.
#pragma once

namespace itif::device {

// Limits the spinning to 30,000 rounds, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. Call it first
// in main(): libgomp reads its environment while the program is loaded, so this sets GOMP_SPINCOUNT
// and executes the program anew; with the variable already set (by a service manager, say) it does
// nothing. Programs that only test need not call it.
void limit_pool_spinning(char** argv);

}  // namespace itif::device
