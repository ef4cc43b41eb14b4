/* What the environment does to the record and to commands under way.
 *
 *   OVERRUN     the lease is over at any instant; else only while no attempt that lives holds the record
 *   DEADLINE    so is an attempt's hard deadline. Its process counts from before it sent begin, so it learns of it first
 *   GH          copies of a command that a dead socket holds back, and delivers at any later time
 *   LS          times that the store loses the record
 *
 * A mistake: NEVER_LATE, begin has no notAfter.
 */
byte gh = GH, ls = LS;

#if GH>0
byte g_op = 0, g_token = 0, g_fence = 0;
bool g_allow = 0;
bool g_old = 0;                   /* a lease has begun since it was sent: where that lease is over, it is past its notAfter */
#endif

/* commands that a dead socket holds back */
#define O_BEGIN 1
#define O_EXTEND 2
#define O_COMPLETE 3
#define O_RELEASE 4
#define O_FAIL 5

inline holdBack(o, t, f, allow) {
#if GH>0
  gh--;
  if :: g_op == 0 -> g_op = o; g_token = t; g_fence = f; g_allow = allow; g_old = 0 :: else fi
#else
  skip
#endif
}

inline leaseStarts() {
#if GH>0 && !defined(NEVER_LATE)
  if :: g_op == O_BEGIN -> g_old = 1 :: else fi
#else
  skip
#endif
}

active proctype Leases() {
end:
  do
#ifdef OVERRUN
  :: atomic { state == in_progress && !over -> leaseExpires() }
#else
  :: atomic { state == in_progress && !over && !ANY(HELD_BY) -> leaseExpires() }
#endif
  od
}

#ifdef DEADLINE
active proctype Deadlines() {
end:
  do
  :: atomic { state == in_progress && !overdue && !ANY(HELD_BY) -> deadlinePasses() }
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
active proctype Losses() {
end:
  do
  :: atomic { ls > 0 && state != absent -> ls--; hasLost = 1; lose() }
  od
}
#endif

#if GH>0
active proctype DeadSocket() {
  mtype rc;
  byte rv, f;
end:
  do
  :: atomic { g_op != 0 ->
       if
       :: g_op == O_BEGIN -> begin(g_token, g_allow, (g_old && EXPIRED), rc, rv, f)
       :: g_op == O_EXTEND -> extend(g_token, g_fence, rc)
       :: g_op == O_COMPLETE -> complete(g_token, g_fence, completed, rc, rv)
       :: g_op == O_RELEASE -> release(g_token, g_fence, rc)
       :: g_op == O_FAIL -> complete(g_token, g_fence, failed, rc, rv)
       fi;
       g_op = 0; g_token = 0; g_fence = 0; g_allow = 0; g_old = 0; rc = 0; rv = 0; f = 0 }
  od
}
#endif
