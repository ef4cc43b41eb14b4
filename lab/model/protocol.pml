/* One record and the requests that carry its key, with bounded faults and in every order: docs/explanation/protocol.md.
 *
 *   record.pml          the record, and what each command does to it
 *   properties.pml      what holds
 *   faults.pml          leases that expire, dead sockets, losses
 *   worker.pml          what an attempt does
 *   operator.pml        with OP: what an operator does
 *   blob.pml            with BLOBS: the blob store that has the bodies of successes
 *
 * The head of each names its switches and the mistakes that can be planted in it. Time has no numbers.
 *
 * Bounds
 *   N workers with ATT attempts each, one client per worker    CONTENTS   1, or 2 that a client may send with the key
 *   RL  replies that are lost: the same command again          FL  failures of the operation, each retryable or kept
 *   GH  copies of a command that a dead socket holds back      HB  heartbeats of an attempt
 *       and delivers at any later time                         LS  times that the store loses the record
 *   BF  failures of the blob store                             BX  blobs that expire
 *   OP  changes by an operator
 *   CR  crashes of a worker                                    FO  runs without a record (whenUnavailable: 'execute')
 */
#ifndef N
#define N 2
#endif
#ifndef ATT
#define ATT 2
#endif
#ifndef CONTENTS
#define CONTENTS 1
#endif
#ifndef RL
#define RL 1
#endif
#ifndef GH
#define GH 1
#endif
#ifndef CR
#define CR 1
#endif
#ifndef FL
#define FL 1
#endif
#ifndef HB
#define HB 1
#endif
#ifndef LS
#define LS 0
#endif
#ifndef FO
#define FO 0
#endif
#ifndef BF
#define BF 1
#endif
#ifndef BX
#define BX 1
#endif
#ifndef OP
#define OP 0
#endif
#ifndef TOGETHER
#define TOGETHER 1
#endif

#ifdef LIVE
#define WORKERS (N+1)     /* the last one is the client that comes back */
#else
#define WORKERS N
#endif
#define TOKENS (WORKERS*ATT+1)
#define WORKER(t) ((t-1)/ATT)
#define PROCESS(i) ((i) < TOGETHER -> 0 : (i))

#define LOCKED 0

/* where a worker's attempt stands */
#define IDLE 0
#define PENDING 1
#define RUNNING 2

bool content[TOKENS+OP];          /* of an operator's change, the content of the record */
byte phase[WORKERS], token[WORKERS];
byte granted[WORKERS];            /* the fence that it was granted */
bool past[WORKERS];               /* its hard deadline is over, as its process counts */

#define LIVING(i) (phase[i] == RUNNING && !past[i])
#define HELD_BY(i) (LIVING(i) && token[i] == own)
#define LATEST(i) (LIVING(i) && granted[i] == ticks)
#define PEER(i,w,t) (PROCESS(i) == PROCESS(w) && LIVING(i) && token[i] != t)
#if N==1 && !defined(LIVE)
#define ANY(P) P(0)
#define ANY_PEER(w,t) PEER(0,w,t)
#elif WORKERS==2
#define ANY(P) (P(0) || P(1))
#define ANY_PEER(w,t) (PEER(0,w,t) || PEER(1,w,t))
#else
#define ANY(P) (P(0) || P(1) || P(2))
#define ANY_PEER(w,t) (PEER(0,w,t) || PEER(1,w,t) || PEER(2,w,t))
#endif

#ifdef BLOBS
#include "blob.pml"
#else
#define KEPT(t) true
#endif
#include "record.pml"
#include "properties.pml"
#include "faults.pml"
#include "worker.pml"
#if OP>0
#include "operator.pml"
#endif

init {
  atomic {
    run Worker(0);
#if N>1
    run Worker(1);
#endif
#if N>2
    run Worker(2);
#endif
#ifdef LIVE
    run Client(N);
#endif
  }
  (ended == N);
#ifdef REPORTED
  assert(effects <= 1 || reported)
#endif
}
