import type { Evidence } from './evidence-page.js';
import { clauses, figures, kit, model, simulation, test } from './holdings.js';

const CRASHES = 'test/faults/processes/crashes.test.ts';
const LOST_MESSAGES = 'test/faults/store/lost-messages.test.ts';
const OUTAGES = 'test/faults/store/outages.test.ts';
const PAUSES_ALL = 'test/faults/processes/pauses.all.test.ts';
const SETTLEMENTS = 'test/integration/engine/settlements.test.ts';

/** What holds the rows about requests, processes and the store: each is found by its first cell. */
export const SITUATIONS: readonly Evidence[] = [
  {
    promises: ['the handler sends its response itself'],
    holds: [
      test(
        'test/e2e/http/responses/sent-by-handlers.test.ts',
        'is its outcome if it throws after it',
      ),
      test(
        'test/e2e/transactional/sent-by-handlers.test.ts',
        'arrives when its writes are committed',
        'never arrives if it throws after it',
      ),
    ],
  },
  {
    promises: ['first request'],
    holds: [
      clauses('C73'),
      test(
        'test/e2e/http/attempts/settlement.test.ts',
        'holds back every byte of the response of %s',
      ),
    ],
  },
  {
    promises: ['retry, first request completed'],
    holds: [
      clauses('C61', 'C62', 'C63', 'C73'),
      test(
        'test/e2e/http/surroundings/pipeline.test.ts',
        'replays the first response of %s byte for byte',
      ),
    ],
  },
  {
    promises: ['retry, first request still running'],
    holds: [
      clauses('C50', 'C51', 'C55'),
      test(
        'test/integration/engine/waiting.test.ts',
        'gets the %s of the first one as soon as it is stored',
      ),
      figures('waiting'),
    ],
  },
  {
    promises: ['same key, other content'],
    holds: [
      clauses('C31', 'C53', 'C79'),
      model('another content'),
      simulation('begin does not compare the content'),
      test(
        'test/faults/store/same-key.test.ts',
        'is rejected in flight and afterwards, and changes nothing',
      ),
    ],
  },
  { promises: ['same key, other caller'], holds: [clauses('C22', 'C23', 'C24')] },
  {
    promises: ['key missing, malformed, given twice, too long'],
    holds: [
      clauses('C06', 'C07', 'C10', 'C11', 'C18'),
      test(
        'test/e2e/http/requests/fuzz.test.ts',
        'cause no error, and nothing runs unprotected or twice',
      ),
    ],
  },
  { promises: ['the caller is unknown'], holds: [clauses('C30')] },
  {
    promises: ['a caller or key of a wrong type'],
    holds: [
      test(
        'test/e2e/callers.test.ts',
        'is a caller of its own, none, or a mistake that is logged with its type',
        'is a key of its own, none, or a mistake that is logged with its type',
      ),
      test(
        'test/unit/core/record/record-key.test.ts',
        'is a part of its own, or refused with its type, as the result of a scope function',
      ),
    ],
  },
  {
    promises: ['a key under another name (`X-Idempotency-Key`)'],
    holds: [
      test(
        'test/e2e/http/requests/unprotected.test.ts',
        'that has its key under another name is reported, once: %s',
      ),
    ],
  },
  {
    promises: ['the caller has all of `limits.maxAttemptsPerCaller`'],
    holds: [
      test(
        'test/e2e/http/attempts/limits-of-callers.test.ts',
        'runs as many operations at a time as the limit allows, while another caller is served',
      ),
    ],
  },
  {
    promises: ['no key or caller, where none is required'],
    holds: [
      test(
        'test/e2e/http/requests/unprotected.test.ts',
        'is an event and a number by its reason: %s',
      ),
    ],
  },
  {
    promises: ['`outcome.keep` itself fails, or returns no boolean'],
    holds: [
      test(
        'test/integration/nest/rejecting-responses.test.ts',
        'outcome.keep: a failure is kept, whatever the promise resolves to',
      ),
    ],
  },
  { promises: ['the operation responds with 4xx'], holds: [clauses('C74', 'C75')] },
  { promises: ['a pipe or a guard rejects the request'], holds: [clauses('C26', 'C28', 'C88')] },
  {
    promises: ['the operation fails, 5xx or an exception'],
    holds: [clauses('C76', 'C77', 'C78')],
  },
  {
    promises: ['the client disconnects', 'the client leaves'],
    holds: [
      clauses('C57', 'C58', 'C59'),
      simulation('a record is released when its client leaves'),
      test(
        'test/faults/processes/duplicates.test.ts',
        'keep the outcome of a client that left while its handler was running',
      ),
    ],
  },
  {
    promises: ['a timeout responds first'],
    holds: [
      clauses('C60c'),
      test(
        'test/e2e/http/attempts/concurrency.test.ts',
        'C60c responds with %d, the key stays locked, and a success is not repeated',
      ),
    ],
  },
  {
    promises: ['the process dies', 'the process dies in the operation'],
    holds: [
      simulation(
        'a takeover does not look up what the earlier attempt has done',
        'an abandoned record is taken over though onTakeover is reject',
      ),
      test(
        CRASHES,
        'at the point %s leaves an effect that a takeover repeats, and the takeover is reported',
        'at the point %s leaves a key that is released with its lease, and one effect',
        'at the point after_complete leaves an outcome that is replayed, though no client received it',
      ),
      test(
        'test/e2e/http/attempts/recovery.test.ts',
        "C60a after the lease expires the key is free, and the handler runs where onTakeover returns 'run'",
        'supplies the response as if the handler had returned it, and the handler does not run',
      ),
      figures('chaos-kills'),
    ],
  },
  {
    promises: ['the process stalls longer than its lease'],
    holds: [
      model('one process, 2 × 2'),
      model('own attempts forgotten'),
      simulation(
        'a process takes over the attempt that it is itself running',
        'the loss of a lease does not abort the signal',
      ),
      test(
        'test/faults/processes/pauses.test.ts',
        'is superseded, and responds with the outcome of its successor',
      ),
      test(
        PAUSES_ALL,
        'by a blocked event loop is superseded as well',
        'by a blocked event loop does not take over its own execution',
      ),
      test(
        'test/e2e/http/attempts/recovery.test.ts',
        'C60b the late owner overwrites nothing, and its client gets the stored outcome',
      ),
      test(
        'test/e2e/http/attempts/abort-signal.test.ts',
        'aborts a fetch once the attempt has lost its record',
      ),
      figures('chaos-pauses-error'),
    ],
  },
  {
    promises: ['the store is down before it began', 'Redis is down before the operation'],
    holds: [
      clauses('C87'),
      test(
        OUTAGES,
        'fails closed: nothing runs, and the key is unused afterwards',
        'fails open: it runs unprotected, and is saved once the store is back',
      ),
      test(
        'test/faults/store/dead-connections.test.ts',
        "A black hole rejects begins in time, and does not lose an attempt's outcome",
      ),
      test(
        'test/faults/store/stalls.test.ts',
        'for less than a lease delays all requests, and has no other effect',
      ),
      test(
        'test/e2e/http/stores/breaker.test.ts',
        'responds with 503 and Retry-After while open, without calling handler or store, and closes after the probe',
      ),
      figures('outage'),
    ],
  },
  {
    promises: ['the store is down when it completes', 'Redis is down after the operation'],
    holds: [
      clauses('C87a'),
      simulation(
        'a complete without a reply is not repeated',
        'an outcome that was not saved in time is given up',
      ),
      test(
        'test/faults/processes/store-lost-at-complete.test.ts',
        'responds %s, and stores the outcome once the store is back',
      ),
      test(
        OUTAGES,
        'for the owner alone: saving continues until it finds the outcome of a successor',
        'and stays down: saving ends at the hard deadline, with an event',
      ),
      figures('chaos-partition-respond'),
    ],
  },
  {
    promises: ['a returned file fails before its first byte'],
    holds: [
      test(
        'test/e2e/http/responses/broken-files.test.ts',
        'that fails before its first byte: retries get the error that the client got',
      ),
    ],
  },
  {
    promises: ['a returned file breaks off later on Express'],
    holds: [
      test(
        'test/e2e/http/responses/broken-files.test.ts',
        'that breaks off later is never replayed as a whole one, nor made again',
      ),
    ],
  },
  {
    promises: ['the response is larger than 1 MiB'],
    holds: [
      clauses('C70a'),
      test(
        'test/e2e/http/responses/sending.test.ts',
        'sends a large response that waits for drain completely: %s',
      ),
    ],
  },
  {
    promises: ['shutdown', 'SIGTERM'],
    holds: [
      simulation(
        'an attempt starts though the shutdown began while the store was asked',
        'the drain ends while attempts are running',
      ),
      test(
        'test/faults/processes/shutdown.test.ts',
        'completes what runs, begins nothing more, and leaves no key behind',
      ),
      test(
        'test/integration/engine/shutdown.test.ts',
        'waits for running operations, keeps their heartbeats, and stores their outcomes',
        'does not run, and releases its key, however late its %s is',
      ),
      test(
        'test/integration/redis/engine-on-redis.test.ts',
        '%d ms after their arrival leaves no record in progress',
      ),
    ],
  },

  {
    promises: ['the reply to a begin is lost'],
    holds: [
      simulation('a begin that is resent acquires nothing'),
      test(LOST_MESSAGES, 'of begin: the attempt runs once, as itself'),
      kit(
        'begin-replays',
        'replies owned, with the same fence, to the copy of a command whose reply was lost',
      ),
      figures('chaos-storms'),
    ],
  },
  {
    promises: ['the begin arrives after its caller gave up'],
    holds: [
      model('begins of any age'),
      model('no tombstones'),
      simulation('a begin acquires after notAfter', 'begin is sent without notAfter'),
      test(
        'test/faults/store/late-copies.test.ts',
        'of a begin whose caller has given up acquires nothing: late',
        'of a begin whose attempt was released acquires nothing: stale_begin',
      ),
      test(
        LOST_MESSAGES,
        'A begin without a reply, whose caller gives up, leaves a key that is free at once',
      ),
    ],
  },
  {
    promises: ['the reply to a completion is lost'],
    holds: [
      simulation('a complete without a reply counts as done'),
      test(
        LOST_MESSAGES,
        "of complete: the outcome is stored once, and the response is the attempt's own",
      ),
      kit('complete', 'replies already to a copy of the command with any fence'),
    ],
  },
  {
    promises: ['Redis is out of memory'],
    holds: [
      test(
        'test/faults/store/lost-records.test.ts',
        'with noeviction rejects begins, and lets running attempts extend, complete and release',
      ),
      test(
        'test/integration/redis/out-of-memory.test.ts',
        'begin is rejected and nothing changes',
        'a running attempt extends its lease and completes',
        'a duplicate still gets the replay',
      ),
    ],
  },
  {
    promises: ['the first attempt finishes while the second one runs'],
    holds: [
      simulation('an attempt that has lost its record does not wait for the one that has it'),
      test(SETTLEMENTS, 'waits for the attempt that took over, and returns its outcome'),
      test(
        'test/faults/store/outlived-leases.test.ts',
        'detects at its next heartbeat that another one has its record',
      ),
    ],
  },
  {
    promises: ['two attempts end differently, a failure being kept'],
    holds: [
      model('late failures stored'),
      test(
        SETTLEMENTS,
        'returns the stored failure of the other attempt and reports that outcomes diverged',
      ),
    ],
  },
  {
    promises: ["… and its key has another content's outcome by then"],
    holds: [
      model('another content'),
      kit(
        'complete',
        'returns no outcome to an attempt whose key was released and acquired for another content',
      ),
      test(SETTLEMENTS, 'does not get that outcome: unknown (%#)'),
      test(
        'test/e2e/http/attempts/reused-since.test.ts',
        'gets outcome unknown, not the outcome of a later request with the same key',
      ),
    ],
  },
  {
    promises: ['the operation hangs'],
    holds: [
      model('no key is stuck'),
      simulation('the hard deadline does not abort the signal'),
      test(PAUSES_ALL, 'loses the key at the hard deadline, heartbeats or not'),
      test('test/unit/core/engine/lease-keeper.test.ts', 'once, at half of the hard deadline'),
    ],
  },
  {
    promises: ['the record vanishes while the operation runs'],
    holds: [
      model('failures restored'),
      simulation('a record that had to be restored is not reported'),
      test(
        'test/faults/store/lost-records.test.ts',
        'is reported by the holder at its end, and its outcome is restored',
        'lets a duplicate run undetected: the first holder reports it, and responds with the one outcome',
      ),
      test(
        SETTLEMENTS,
        'does not restore a failure: returns it, reports the loss, and the key is free',
      ),
    ],
  },
];
