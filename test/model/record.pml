/* One record and the requests that carry its key, with bounded faults and in every order: docs/protocol.md.
 *
 * A step of the store is one inline, executed at once. Time has no numbers. "The lease is over" may happen at any instant with
 * OVERRUN, else only while no attempt that lives holds the record. "The hard deadline of an attempt is over" may happen at any
 * instant with DEADLINE.
 *
 * Bounds
 *   N workers with ATT attempts each, one client per worker    CONTENTS   1, or 2 that a client may send with the key
 *   RL  replies that are lost: the same command again          FL  failures of the operation, each retryable or kept
 *   GH  copies of a command that a dead socket holds back      HB  heartbeats of an attempt
 *       and delivers at any later time                         LS  times that the store loses the record
 *   CR  crashes of a worker                                    FO  runs without a record (whenUnavailable: 'execute')
 * Environment
 *   OVERRUN, DEADLINE   as above
 *   CRASHLATE           a worker may also crash between the effect and complete
 *   GIVEUP              a begin without a reply may be given up: release(token, 0)
 *   TOGETHER            so many workers are of one process, each of the others has its own
 * Checks
 *   ONCE                at most one effect
 *   REPORTED            every further effect was reported to some worker
 *   AUTHORITY, FINAL    one write authority; a stored outcome never changes (never claims)
 *   LIVE                the one worker hangs, and a client of the same process that comes back ends up with an outcome
 *   always: the assertions below, which name what they hold
 * Mistakes
 *   IGNORE_CONTENT      complete hands over an outcome of another content
 *   RESTORE_FAILURES    complete writes a failure back where there is no record
 *   LATE_FAILURES       complete accepts a failure over another attempt's tombstone
 *   FORGET_OWN          a process takes over an attempt that it is itself running
 *   DENY_FOR_EVER       a process never takes over an attempt that it is itself running, deadline or not
 *   NEVER_LATE          begin has no notAfter
 *   TOKEN_ALONE         complete, extend and release do not compare the fence
 *   DELETE_RELEASED     release leaves no tombstone
 *   LOWER_FENCE         a late success lowers the fence
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
#ifndef TOGETHER
#define TOGETHER 1
#endif

/* states of the record */
#define ABSENT 0
#define IN_PROGRESS 1
#define COMPLETED 2
#define FAILED 3
#define RELEASED 4
/* replies */
#define ACQUIRED 1
#define OWNED 2
#define BUSY 3            /* in_progress, or abandoned under deny */
#define REPLAY 4
#define REPLAY_FAILED 5
#define STALE_BEGIN 6
#define OK 7
#define ALREADY 8
#define LOST 9
#define SUPERSEDED 10
#define SUPERSEDED_FAILED 11
#define LOST_FINISHED 12
#define GONE 13
#define RESTORED 14
#define MAX_EXECUTION 15
#define MISMATCH 16
#define LATE 17
/* commands that a dead socket holds back */
#define O_BEGIN 1
#define O_EXTEND 2
#define O_COMPLETE 3
#define O_RELEASE 4
#define O_FAIL 5
/* where an attempt stands */
#define IDLE 0
#define PENDING 1
#define RUNNING 2
#define DEAD 3

#ifdef LIVE
#define WORKERS (N+1)     /* the last one is the client that comes back */
#else
#define WORKERS N
#endif
#define TOKENS (WORKERS*ATT+1)
#define WORKER(t) ((t-1)/ATT)

/* the record */
byte state = ABSENT, own = 0, fence = 0, kept = 0;      /* kept: the attempt whose outcome is stored */
bool print = 0;                                         /* its fingerprint */
bool over = 0;                                          /* the lease is */

byte rl = RL, gh = GH, cr = CR, fl = FL, ls = LS, fo = FO;

/* what only the observer knows */
bool content[TOKENS];
byte grants = 0;                  /* the server's clock, in grants: a grant's fence is its number */
byte effects = 0, lastEffect = 0; /* how many; the highest fence of one */
byte written = 0;                 /* the highest fence that the business data has seen */
byte got[CONTENTS];               /* the attempt whose success a client of that content got */
byte first = 0;                   /* the first outcome that was ever stored */
bool lost = 0, reported = 0;
byte ended = 0;
bool served = 0;

byte phase[WORKERS], token[WORKERS];
bool past[WORKERS];               /* the hard deadline of its attempt is over */

#if GH>0
byte g_op = 0, g_token = 0, g_fence = 0;
bool g_allow = 0;
bool g_late = 0;                  /* a lease has begun since it was sent: it is older than a lease, and so past its notAfter */
#endif

#define SAME(t) (print == content[t])
#define FINISHED (state == COMPLETED || state == FAILED)
#ifdef TOKEN_ALONE
#define MINE(t,f) (own == t)
#else
#define MINE(t,f) (own == t && (f == 0 || fence == f))
#endif

#define LIVING(i) (phase[i] == RUNNING && !past[i])
#define HELD_BY(i) (LIVING(i) && token[i] == own)
#define PROCESS(i) ((i) < TOGETHER -> 0 : (i))
#define PEER(i,w,t) (PROCESS(i) == PROCESS(w) && LIVING(i) && token[i] != t)
#define LATEST(i) (LIVING(i) && granted[i] == grants)
#define PAST(t) (past[WORKER(t)] && token[WORKER(t)] == t)
byte granted[WORKERS];
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

inline leaseBegins() {
  over = 0;
#if GH>0 && !defined(NEVER_LATE)
  if :: g_op == O_BEGIN -> g_late = 1 :: else fi
#endif
}
inline grant(t) {
  grants++; fence = grants; state = IN_PROGRESS; own = t; kept = 0; print = content[t];
  leaseBegins()
}
inline store(t, s) { state = s; kept = t; over = 0; if :: first == 0 -> first = t :: else fi }

/* ---- the steps of the store ---- */

inline begin(t, allow, late, rc, rv, rf) {
  if
  :: state == ABSENT -> grant(t); rc = ACQUIRED; rf = fence
  :: state == RELEASED && own == t -> rc = STALE_BEGIN
  :: state == RELEASED && own != t -> grant(t); rc = ACQUIRED; rf = fence
  :: (state == IN_PROGRESS || FINISHED) && !SAME(t) -> rc = MISMATCH
  :: state == IN_PROGRESS && SAME(t) && own == t -> leaseBegins(); rc = OWNED; rf = fence
  :: state == IN_PROGRESS && SAME(t) && own != t && !over -> rc = BUSY
  :: state == IN_PROGRESS && SAME(t) && own != t && over && !allow -> rc = BUSY
  :: state == IN_PROGRESS && SAME(t) && own != t && over && allow && late -> rc = LATE
  :: state == IN_PROGRESS && SAME(t) && own != t && over && allow && !late ->
       /* no process takes over what it is itself running, before the hard deadline of that */
       assert(!ANY_PEER(WORKER(t), t));
       reported = 1;
       grant(t); rc = ACQUIRED; rf = fence
  :: state == COMPLETED && SAME(t) -> rc = REPLAY; rv = kept
  :: state == FAILED && SAME(t) -> rc = REPLAY_FAILED; rv = kept
  fi;
  assert(state == ABSENT || lost || fence == grants)    /* the record's fence is that of the newest grant */
}

inline extend(t, f, rc) {
  if
  :: state == IN_PROGRESS && MINE(t,f) && !PAST(t) -> leaseBegins(); rc = OK
  :: state == IN_PROGRESS && MINE(t,f) && PAST(t) -> rc = MAX_EXECUTION
  :: state == ABSENT -> rc = GONE
  :: else -> rc = LOST
  fi
}

/* Another attempt's outcome stands. */
inline handOver(t, rc, rv) {
  if
#ifdef IGNORE_CONTENT
  :: true ->
#else
  :: !SAME(t) -> rc = LOST_FINISHED
  :: SAME(t) ->
#endif
       rv = kept; rc = (state == COMPLETED -> SUPERSEDED : SUPERSEDED_FAILED)
  fi
}

inline complete(t, f, rc, rv) {
  if
  :: state == IN_PROGRESS && MINE(t,f) ->
       assert(f == 0 || f == grants);                   /* the newest grant alone completes */
       assert(SAME(t));
       store(t, COMPLETED); rc = OK
  :: FINISHED && own == t -> assert(kept == t); rc = ALREADY
  :: FINISHED && own != t -> handOver(t, rc, rv)
  :: state == RELEASED && own != t ->                   /* that attempt let go; this effect did happen */
       assert(!ANY(HELD_BY)); assert(!ANY(LATEST));
       assert(first == 0 || lost);                      /* an outcome that was stored is never replaced */
       own = t; print = content[t];
#ifdef LOWER_FENCE
       fence = f;
#else
       fence = (f > fence -> f : fence);
#endif
       store(t, COMPLETED); rc = OK
  :: state == ABSENT ->
       assert(lost || f == 0);
       own = t; print = content[t]; fence = (f == 0 -> grants : f);
       store(t, COMPLETED); rc = RESTORED
  :: else -> rc = LOST
  fi;
  assert(state == ABSENT || lost || fence == grants)
}

/* No stored failure hides the effect of an attempt that is newer than the one that failed. */
#define HIDES_NOTHING(f) (f == 0 || lastEffect <= f)

inline completeFailed(t, f, rc, rv) {
  if
  :: state == IN_PROGRESS && MINE(t,f) -> assert(HIDES_NOTHING(f)); store(t, FAILED); rc = OK
  :: FINISHED && own == t -> rc = ALREADY
  :: FINISHED && own != t -> handOver(t, rc, rv)
#ifdef LATE_FAILURES
  :: state == RELEASED && own != t ->
       assert(HIDES_NOTHING(f)); own = t; print = content[t]; store(t, FAILED); rc = OK
#endif
#ifdef RESTORE_FAILURES
  :: state == ABSENT ->
       assert(f == 0 -> effects == 0 : HIDES_NOTHING(f));
       own = t; print = content[t]; fence = (f == 0 -> grants : f); store(t, FAILED); rc = RESTORED
#else
  :: state == ABSENT -> rc = GONE
#endif
  :: else -> rc = LOST
  fi
}

inline release(t, f, rc) {
  if
  :: state == IN_PROGRESS && MINE(t,f) ->
#ifdef DELETE_RELEASED
       state = ABSENT; own = 0; fence = 0; kept = 0; print = 0;
#else
       state = RELEASED;
#endif
       over = 0; rc = OK
  :: state == RELEASED && own == t -> rc = ALREADY
  :: state == ABSENT -> rc = GONE
  :: else -> rc = LOST
  fi
}

/* ---- the workers ---- */

/* No client gets the outcome of other content; while the store loses nothing, all get the same success. */
inline tell(mine, theirs) {
  assert(content[theirs] == content[mine]);
  if
  :: got[content[mine]] == 0 -> got[content[mine]] = theirs
  :: else -> assert(got[content[mine]] == theirs || lost)
  fi
}
inline tellFailure(mine, theirs) { assert(content[theirs] == content[mine]) }

inline holdBack(o, t, f, allow) {
#if GH>0
  gh--;
  if :: g_op == 0 -> g_op = o; g_token = t; g_fence = f; g_allow = allow; g_late = 0 :: else fi
#else
  skip
#endif
}

/* A process that runs an attempt of this record itself begins with deny, until the hard deadline of that. */
inline choose(i, t, allow) {
  if
#ifdef FORGET_OWN
  :: allow = 1
#elif defined(DENY_FOR_EVER)
  :: allow = !(PROCESS(0) == PROCESS(i) && phase[0] == RUNNING && i != 0)
#else
  :: !ANY_PEER(i,t) -> allow = 1
  :: allow = 0            /* for that reason, or because the operation says so */
#endif
  fi
}

proctype Worker(byte i) {
  byte att = 0, t = 0, rc = 0, rv = 0, f = 0, hb = 0;
  bool allow = 0, again = 0;
START:
  atomic {
    t = 1 + i*ATT + att; att++; again = 0; rc = 0; rv = 0; f = 0; hb = 0;
    phase[i] = PENDING; token[i] = t; granted[i] = 0; past[i] = 0;
#if CONTENTS>1
    if :: content[t] = 0 :: (i > 0 || att > 1) -> content[t] = 1 fi     /* which is which does not matter */
#endif
  }
BEGIN:
  if
  :: atomic { choose(i, t, allow); begin(t, allow, 0, rc, rv, f);
       if :: rc == ACQUIRED || rc == OWNED -> phase[i] = RUNNING; granted[i] = f :: else fi;
       allow = 0 }
  :: atomic { rl > 0 -> rl--; choose(i, t, allow); begin(t, allow, 0, rc, rv, f); rc = 0; rv = 0; f = 0; allow = 0 } goto BEGIN
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0 } goto BEGIN
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0; phase[i] = IDLE } goto ANSWER
  :: atomic { !again && (state == ABSENT || (state == RELEASED && own != t) || (state == IN_PROGRESS && own != t && over)) ->
       again = 1 } goto BEGIN                           /* late: once more, with what it has learnt of the server's clock */
#ifdef GIVEUP
  :: atomic { rl > 0 -> rl--; choose(i, t, allow); begin(t, allow, 0, rc, rv, f); rc = 0; rv = 0; f = 0; allow = 0; phase[i] = IDLE } goto GIVE_UP
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0; phase[i] = IDLE } goto GIVE_UP
#endif
#if FO>0
  :: atomic { fo > 0 -> fo--; phase[i] = RUNNING; reported = 1 } goto UNPROTECTED
#endif
  :: atomic { cr > 0 -> cr--; phase[i] = DEAD } goto ANSWER
  fi;
  atomic {
    if
    :: rc == ACQUIRED || rc == OWNED -> skip
    :: rc == REPLAY -> tell(t, rv); goto SERVED
    :: rc == REPLAY_FAILED -> tellFailure(t, rv); phase[i] = IDLE; goto ANSWER
    :: rc == BUSY -> phase[i] = PENDING
    :: else -> phase[i] = IDLE; goto ANSWER
    fi
  }
  if
  :: rc == BUSY ->
     if
     :: atomic { state != IN_PROGRESS || over -> rc = 0 } goto BEGIN     /* it has waited, and reads again */
     :: atomic { rc = 0; phase[i] = IDLE } goto ANSWER
     fi
  :: else
  fi;
HANDLER:
#ifdef LIVE
  if
  :: atomic { hb < HB -> hb++; extend(t, f, rc) } goto HANDLER
  :: false                                              /* it hangs */
  fi;
#endif
  if
  :: atomic { hb < HB -> hb++; extend(t, f, rc); if :: rc != OK -> reported = 1 :: else fi } goto HANDLER
  :: atomic { hb < HB && gh > 0 -> hb++; holdBack(O_EXTEND, t, f, 0) } goto HANDLER
  :: atomic { rc == LOST || rc == GONE || rc == MAX_EXECUTION -> phase[i] = IDLE } goto ANSWER    /* it heeds its signal */
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING } goto RELEASE
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING } goto FAIL
  :: atomic { cr > 0 -> cr--; phase[i] = DEAD } goto ANSWER
  :: atomic { true ->
       if
       :: f < written -> reported = 1; phase[i] = IDLE; goto ANSWER      /* fenced off by the business data */
       :: else -> written = f
       fi;
       assert(f >= lastEffect);
       lastEffect = f; effects++;
#ifdef ONCE
       assert(effects <= 1)
#endif
     }
  fi;
COMPLETE:
  if
  :: atomic { complete(t, f, rc, rv);
       if
       :: rc == OK || rc == ALREADY -> tell(t, t); goto SERVED
       :: rc == RESTORED -> reported = 1; tell(t, t); goto SERVED
       :: rc == SUPERSEDED -> reported = 1; tell(t, rv); goto SERVED
       :: rc == SUPERSEDED_FAILED -> reported = 1; tellFailure(t, rv); phase[i] = IDLE; goto ANSWER
       :: rc == LOST && state == IN_PROGRESS -> reported = 1; phase[i] = PENDING; goto HELD
       :: else -> reported = 1; phase[i] = IDLE; goto ANSWER             /* outcome unknown */
       fi }
  :: atomic { rl > 0 -> rl--; complete(t, f, rc, rv) } goto COMPLETE
  :: atomic { gh > 0 -> holdBack(O_COMPLETE, t, f, 0) } goto COMPLETE
  :: atomic { hb < HB -> hb++; extend(t, f, rc) } goto COMPLETE
#ifdef CRASHLATE
  :: atomic { cr > 0 -> cr--; phase[i] = DEAD } goto ANSWER
#endif
  fi;
HELD:                                                   /* another attempt has it: asked again until that has ended */
  if
  :: atomic { !(state == IN_PROGRESS && own != t) -> skip } goto COMPLETE
  :: atomic { phase[i] = IDLE } goto ANSWER
  fi;
RELEASE:
  if
  :: atomic { release(t, f, rc); if :: rc == LOST || rc == GONE -> reported = 1 :: else fi; phase[i] = IDLE } goto ANSWER
  :: atomic { rl > 0 -> rl--; release(t, f, rc) } goto RELEASE
  :: atomic { gh > 0 -> holdBack(O_RELEASE, t, f, 0) } goto RELEASE
  fi;
FAIL:
  if
  :: atomic { completeFailed(t, f, rc, rv);
       if
       :: rc == SUPERSEDED -> reported = 1; tell(t, rv); goto SERVED
       :: rc == SUPERSEDED_FAILED -> reported = 1; tellFailure(t, rv)
       :: rc == OK || rc == ALREADY -> skip
       :: else -> reported = 1
       fi;
       phase[i] = IDLE } goto ANSWER
  :: atomic { rl > 0 -> rl--; completeFailed(t, f, rc, rv) } goto FAIL
  :: atomic { gh > 0 -> holdBack(O_FAIL, t, f, 0) } goto FAIL
  fi;
#if FO>0
UNPROTECTED:
  if
  :: atomic { fl > 0 -> fl--; phase[i] = IDLE } goto GIVE_UP
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING } goto FAIL
  :: atomic { cr > 0 -> cr--; phase[i] = DEAD } goto ANSWER
  :: atomic { effects++ } goto COMPLETE
  fi;
#endif
#if defined(GIVEUP) || FO>0
GIVE_UP:
  if
  :: atomic { release(t, 0, rc); rc = 0 } goto ANSWER
  :: atomic { gh > 0 -> holdBack(O_RELEASE, t, 0, 0) } goto ANSWER
  fi;
#endif
ANSWER:                                                 /* no success: the client may retry */
  if
  :: att < ATT -> goto START
  :: goto END
  fi;
SERVED:
  phase[i] = IDLE;
END:
  atomic { rc = 0; rv = 0; f = 0; t = 0; hb = 0; again = 0; past[i] = 0; granted[i] = 0;
    if :: phase[i] != DEAD -> phase[i] = IDLE :: else fi; ended++ }
}

#ifdef LIVE
/* Retries for as long as the response allows it. */
proctype Client(byte i) {
  byte t, rc = 0, rv = 0, f = 0;
  bool allow;
  atomic { t = 1 + i*ATT; token[i] = t; phase[i] = PENDING };
AGAIN:
  atomic {
    choose(i, t, allow);
#if !defined(DENY_FOR_EVER) && !defined(FORGET_OWN)
    if :: !ANY_PEER(i,t) -> allow = 1 :: else fi;       /* the operation may run again */
#endif
    begin(t, allow, 0, rc, rv, f);
    if
    :: rc == ACQUIRED || rc == OWNED -> skip
    :: rc == REPLAY || rc == REPLAY_FAILED -> served = 1
    :: else -> goto AGAIN
    fi };
  if
  :: rc == ACQUIRED || rc == OWNED -> atomic { complete(t, f, rc, rv); served = 1 }
  :: else
  fi
}
#endif

active proctype Leases() {
end:
  do
#ifdef OVERRUN
  :: atomic { state == IN_PROGRESS && !over -> over = 1 }
#else
  :: atomic { state == IN_PROGRESS && !over && !ANY(HELD_BY) -> over = 1 }
#endif
  od
}
#ifdef DEADLINE
active proctype Deadlines() {
end:
  do
  :: atomic { phase[0] == RUNNING && !past[0] -> past[0] = 1 }
#if N>1
  :: atomic { phase[1] == RUNNING && !past[1] -> past[1] = 1 }
#endif
#if N>2
  :: atomic { phase[2] == RUNNING && !past[2] -> past[2] = 1 }
#endif
  od
}
#endif
#if LS>0
active proctype Loss() {
end:
  do
  :: atomic { ls > 0 && state != ABSENT -> ls--; lost = 1; state = ABSENT; own = 0; fence = 0; kept = 0; print = 0; over = 0 }
  od
}
#endif
#if GH>0
active proctype DeadSocket() {
  byte rc, rv, f;
end:
  do
  :: atomic { g_op != 0 ->
       if
       :: g_op == O_BEGIN -> begin(g_token, g_allow, g_late, rc, rv, f)
       :: g_op == O_EXTEND -> extend(g_token, g_fence, rc)
       :: g_op == O_COMPLETE -> complete(g_token, g_fence, rc, rv)
       :: g_op == O_RELEASE -> release(g_token, g_fence, rc)
       :: g_op == O_FAIL -> completeFailed(g_token, g_fence, rc, rv)
       fi;
       g_op = 0; g_token = 0; g_fence = 0; g_allow = 0; g_late = 0; rc = 0; rv = 0; f = 0 }
  od
}
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

#ifdef AUTHORITY
#define MAY_WRITE(i) (phase[i] == RUNNING && granted[i] != 0 && state == IN_PROGRESS && MINE(token[i], granted[i]))
#if N==2
ltl authority { [] !(MAY_WRITE(0) && MAY_WRITE(1)) }
#else
ltl authority { [] !((MAY_WRITE(0) && MAY_WRITE(1)) || (MAY_WRITE(0) && MAY_WRITE(2)) || (MAY_WRITE(1) && MAY_WRITE(2))) }
#endif
#endif
#ifdef FINAL
ltl final { [] (FINISHED -> ([] (lost || (FINISHED && kept == first)))) }
#endif
#ifdef LIVE
ltl live { <> served }
#endif
