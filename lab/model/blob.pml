/* The body of a success in a blob store: put first, then the record gets a pointer to it. Each attempt has a blob of its own.
 *
 *   BF  failures of the blob store: a put, which may have stored the bytes all the same, or a read
 *   BX  blobs that expire, or are lost
 *
 * Mistakes
 *   COMPLETE_FIRST      the pointer is stored before the blob is
 *   ONE_NAME            the attempts of a record share the name of their blob
 *   SERVE_OWN           the client of a superseded attempt gets the bytes of its own blob
 *   DROP_UNKNOWN        an attempt that does not know whether its outcome is stored deletes its blob
 *   RUN_AGAIN           a replay whose blob is missing runs the operation
 */
byte bf = BF, bx = BX;
byte blob[TOKENS];                /* by name: the attempt whose bytes it has, 0 for none */
bool vanished[TOKENS];            /* by name: its blob has expired, or is lost */
bool pointer[TOKENS];             /* the attempt's outcome points to its blob; else it only says that it is done */

#ifdef ONE_NAME
#define NAME(t) 1
#else
#define NAME(t) (t)
#endif

#define READABLE(t) (blob[NAME(t)] == t)
#define KEPT(t) (pointer[t] && READABLE(t))

inline put(t) { blob[NAME(t)] = t; vanished[NAME(t)] = 0 }
inline drop(t) { blob[NAME(t)] = 0 }

#ifdef DROP_UNKNOWN
#define GIVEN_UP(t) drop(t)
#else
#define GIVEN_UP(t) skip
#endif

/* A pointer is to a blob that was stored before, with the bytes of the same attempt, until it expires or is lost. */
#define POINTS_WELL(t) (!pointer[t] || READABLE(t) || vanished[NAME(t)])

active proctype Expiry() {
  byte n;
end:
  do
  :: atomic { bx > 0 ->
       select(n : 1 .. TOKENS-1);
       if
       :: blob[n] != 0 -> bx--; blob[n] = 0; vanished[n] = 1
       :: else
       fi;
       n = 0 }
  od
}
