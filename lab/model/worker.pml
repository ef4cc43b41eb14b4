/* What an attempt does, and the client that retries it: one client per worker, which sends its next attempt where it got no success.
 *
 *   CRASHLATE           a worker may also crash between the effect and complete
 *   GIVEUP              a begin without a reply may be given up: release(token, 0)
 *   DENY                lease.onTakeover: 'reject'; else each begin chooses
 *   TOGETHER            so many workers are of one process, each of the others has its own
 *
 * Mistakes
 *   FORGET_OWN          a process takes over an attempt that it is itself running
 *   DENY_FOR_EVER       a process never takes over an attempt that it is itself running, deadline or not
 *   RESPOND_FIRST       the response leaves before complete is confirmed
 *   UNFENCED            the business data does not compare the fencing token
 */
byte rl = RL, cr = CR, fl = FL, fo = FO;
byte written = 0;                 /* the highest fence that the business data has seen */

#define STARTED(rc) (rc == acquired || rc == takeover || rc == owned)
#define BUSY(rc) (rc == in_progress || rc == abandoned)
#define EXTENDED(rc) (rc == ok || rc == revived)

/* A process that runs an attempt of this record itself begins with deny, until the hard deadline of that. */
inline choose(i, t, allow) {
  if
#ifdef FORGET_OWN
  :: allow = 1
#elif defined(DENY_FOR_EVER)
  :: allow = !(PROCESS(0) == PROCESS(i) && phase[0] == RUNNING && i != 0)
#else
#ifndef DENY
  :: !ANY_PEER(i,t) -> allow = 1
#endif
  :: allow = 0            /* for that reason, or because the operation says so */
#endif
  fi
}

/* The begin may be late, whatever its sender does. */
inline chooseLate(isLate) { if :: isLate = 0 :: isLate = 1 fi }

/* The attempt ends. What it knew does not matter any more, and equal states are searched once. */
inline leave(i) { phase[i] = IDLE; granted[i] = 0; past[i] = 0; rc = 0; rv = 0; f = 0; hb = 0; again = 0 }
inline crash(i) { cr--; leave(i) }

proctype Worker(byte i) {
  byte att = 0, t = 0, rv = 0, f = 0, hb = 0;
  mtype rc;
  bool allow = 0, isLate = 0, again = 0;
START:
  atomic {
    t = 1 + i*ATT + att; att++; phase[i] = PENDING; token[i] = t;
#if CONTENTS>1
    if :: content[t] = 0 :: (i > 0 || att > 1) -> content[t] = 1 fi     /* which is which does not matter */
#endif
  }
BEGIN:
  if
  :: atomic { choose(i, t, allow); chooseLate(isLate); begin(t, allow, isLate, rc, rv, f); allow = 0; isLate = 0;
       if
       :: STARTED(rc) -> phase[i] = RUNNING; granted[i] = f; rc = 0; goto HANDLER
       :: rc == completed && KEPT(rv) -> succeeds(t, rv); goto END
#ifdef RUN_AGAIN
       :: rc == completed && !KEPT(rv) -> phase[i] = RUNNING; f = fence; granted[i] = f; rc = 0; rv = 0; goto HANDLER
#elif defined(BLOBS)
       :: rc == completed && !KEPT(rv) -> goto END                      /* not kept: it is done, and does not run again */
       :: rc == completed && bf > 0 -> bf--; leave(i); goto RESPOND     /* the blob store does not answer */
#endif
       :: rc == failed -> fails(t, rv); leave(i); goto RESPOND
       :: BUSY(rc) -> rc = 0; goto WAIT
       :: rc == late && !again -> again = 1; rc = 0; goto BEGIN         /* with what it has learnt of the server's clock */
       :: else -> leave(i); goto RESPOND
       fi }
  :: atomic { rl > 0 -> rl--; choose(i, t, allow); begin(t, allow, 0, rc, rv, f); rc = 0; rv = 0; f = 0; allow = 0 } goto BEGIN
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0 } goto BEGIN
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0; leave(i) } goto RESPOND
#ifdef GIVEUP
  :: atomic { rl > 0 -> rl--; choose(i, t, allow); begin(t, allow, 0, rc, rv, f); allow = 0; leave(i) } goto GIVE_UP
  :: atomic { gh > 0 -> choose(i, t, allow); holdBack(O_BEGIN, t, 0, allow); allow = 0; leave(i) } goto GIVE_UP
#endif
#if FO>0
  :: atomic { fo > 0 -> fo--; phase[i] = RUNNING; reported = 1 } goto UNPROTECTED
#endif
  :: atomic { cr > 0 -> crash(i) } goto RESPOND
  fi;
WAIT:
  if
  :: atomic { state != in_progress || over -> skip } goto BEGIN         /* it has waited, and reads again */
  :: atomic { leave(i) } goto RESPOND
  fi;
HANDLER:
#ifdef LIVE
  if
  :: atomic { hb < HB -> hb++; extend(t, f, rc) } goto HANDLER
  :: false                                              /* it hangs */
  fi;
#endif
  if
  :: atomic { hb < HB -> hb++; extend(t, f, rc); if :: EXTENDED(rc) -> rc = 0 :: else -> reported = 1; rc = lost fi } goto HANDLER
  :: atomic { hb < HB && gh > 0 -> hb++; holdBack(O_EXTEND, t, f, 0) } goto HANDLER
  :: atomic { rc == lost -> leave(i) } goto RESPOND     /* it heeds its signal */
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING; rc = 0 } goto RELEASE
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING; rc = 0 } goto FAIL
  :: atomic { cr > 0 -> crash(i) } goto RESPOND
  :: atomic { true ->
#ifndef UNFENCED
       if
       :: f < written -> reported = 1; leave(i); goto RESPOND           /* fenced off by the business data */
       :: else -> written = f
       fi;
#endif
       effectUnder(f); rc = 0 }
  fi;
#ifdef BLOBS
  if
#ifdef COMPLETE_FIRST
  :: atomic { pointer[t] = 1 }
#else
  :: atomic { put(t); pointer[t] = 1 }
  :: atomic { bf > 0 -> bf-- }
  :: atomic { bf > 0 -> bf--; put(t) }
#endif
#ifdef CRASHLATE
  :: atomic { cr > 0 -> crash(i) } goto RESPOND
  :: atomic { cr > 0 -> put(t); crash(i) } goto RESPOND
#endif
  fi;
#endif
COMPLETE:
  if
  :: atomic { complete(t, f, completed, rc, rv);
       if
       :: rc == ok || rc == ok_late || rc == already -> succeeds(t, t); goto END
       :: rc == restored -> reported = 1; succeeds(t, t); goto END
#ifdef SERVE_OWN
       :: rc == superseded && state == completed -> reported = 1; succeeds(t, t); goto END
#elif defined(BLOBS)
       :: rc == superseded && state == completed -> reported = 1;
            if :: drop(t) :: true fi;                                   /* as far as it can */
            if :: KEPT(rv) -> succeeds(t, rv) :: else fi; goto END
#else
       :: rc == superseded && state == completed -> reported = 1; succeeds(t, rv); goto END
#endif
       :: rc == superseded && state == failed -> reported = 1; fails(t, rv); leave(i); goto RESPOND
       :: rc == lost && state == in_progress -> reported = 1; phase[i] = PENDING; rc = 0; goto HELD
       :: else -> reported = 1; leave(i); goto RESPOND                  /* outcome unknown */
       fi }
  :: atomic { rl > 0 -> rl--; complete(t, f, completed, rc, rv); rc = 0; rv = 0 } goto COMPLETE
  :: atomic { gh > 0 -> holdBack(O_COMPLETE, t, f, 0) } goto COMPLETE
  :: atomic { hb < HB -> hb++; extend(t, f, rc); rc = 0 } goto COMPLETE
#ifdef CRASHLATE
  :: atomic { cr > 0 -> crash(i) } goto RESPOND
#endif
#ifdef BLOBS
  /* It gives up, and keeps the blob: the outcome may be stored, now or later. */
  :: atomic { rl > 0 -> rl--; complete(t, f, completed, rc, rv); GIVEN_UP(t); leave(i) } goto RESPOND
#ifdef CRASHLATE
  :: atomic { gh > 0 -> holdBack(O_COMPLETE, t, f, 0); GIVEN_UP(t); leave(i) } goto RESPOND
#endif
#endif
#ifdef RESPOND_FIRST
  :: atomic { true -> succeeds(t, t) } goto COMPLETE
#endif
  fi;
HELD:                                                   /* another attempt has it: asked again until that has ended */
  if
  :: atomic { !(state == in_progress && own != t) -> skip } goto COMPLETE
  :: atomic { leave(i) } goto RESPOND
  fi;
RELEASE:
  if
  :: atomic { release(t, f, rc); if :: rc == lost || rc == gone -> reported = 1 :: else fi; leave(i) } goto RESPOND
  :: atomic { rl > 0 -> rl--; release(t, f, rc); rc = 0 } goto RELEASE
  :: atomic { gh > 0 -> holdBack(O_RELEASE, t, f, 0) } goto RELEASE
  fi;
FAIL:
  if
  :: atomic { complete(t, f, failed, rc, rv);
       if
       :: rc == superseded && state == completed -> reported = 1; succeeds(t, rv); goto END
       :: rc == superseded && state == failed -> reported = 1; fails(t, rv)
       :: rc == ok || rc == ok_late || rc == already -> skip
       :: else -> reported = 1
       fi;
       leave(i) } goto RESPOND
  :: atomic { rl > 0 -> rl--; complete(t, f, failed, rc, rv); rc = 0; rv = 0 } goto FAIL
  :: atomic { gh > 0 -> holdBack(O_FAIL, t, f, 0) } goto FAIL
  fi;
#if FO>0
UNPROTECTED:
  if
  :: atomic { fl > 0 -> fl--; leave(i) } goto GIVE_UP
  :: atomic { fl > 0 -> fl--; phase[i] = PENDING } goto FAIL
  :: atomic { cr > 0 -> crash(i) } goto RESPOND
  :: atomic { effects++ } goto COMPLETE
  fi;
#endif
#if defined(GIVEUP) || FO>0
GIVE_UP:
  if
  :: atomic { release(t, 0, rc); rc = 0 } goto RESPOND
  :: atomic { gh > 0 -> holdBack(O_RELEASE, t, 0, 0) } goto RESPOND
  fi;
#endif
RESPOND:                                                /* no success: the client may retry */
  if
  :: att < ATT -> goto START
  :: goto END
  fi;
END:
  atomic { leave(i); t = 0; ended++ }
}

#ifdef LIVE
/* Retries for as long as the response allows it. */
proctype Client(byte i) {
  byte t, rv = 0, f = 0;
  mtype rc;
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
    :: STARTED(rc) -> skip
    :: rc == completed || rc == failed -> served = 1
    :: else -> goto AGAIN
    fi };
  if
  :: STARTED(rc) -> atomic { complete(t, f, completed, rc, rv); served = 1 }
  :: else
  fi
}
#endif
