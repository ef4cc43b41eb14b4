import type { Evidence } from './evidence-page.js';
import { clauses, figures, kit, model, simulation, test } from './holdings.js';

/** What holds the promises in lists. A word of the promise finds it, in whichever page it stands. */
export const PROMISES: readonly Evidence[] = [
  {
    promises: ['One execution per key, caller and operation'],
    holds: [
      model('calm, 2 × 2, 2 contents'),
      simulation('two that wait run the same attempt', 'any attempt can release'),
      test(
        'test/faults/store/storms.test.ts',
        'A CLIENT KILL storm has every operation run once, and every client get a response',
        'SCRIPT FLUSH every 10 ms has every operation run once, and no client notice',
        'Replies that are lost at random have every operation run once',
      ),
      test(
        'test/faults/processes/duplicates.test.ts',
        'execute once what … clients request at the same time',
      ),
      test(
        'test/e2e/two-processes.test.ts',
        'execute … payments of … requests, and return one body for each key',
      ),
      clauses('C49', 'C56', 'C60'),
      figures('chaos-storms'),
    ],
  },
  {
    promises: ['the interceptor records the bytes on the wire'],
    holds: [
      clauses('C61', 'C62', 'C63', 'C69', 'C70', 'C71', 'C79a'),
      test(
        'test/e2e/http/surroundings/pipeline.test.ts',
        'replays the first response of %s byte for byte',
        'a member that @Exclude() hides is hidden in the replay too',
      ),
      test(
        'test/faults/processes/duplicates.test.ts',
        'replay 5 MB of bytes that are not text, the same in every process',
      ),
    ],
  },
  {
    promises: ['only after its outcome is stored'],
    holds: [
      test(
        'test/e2e/http/attempts/settlement.test.ts',
        'holds back every byte of the response of %s',
      ),
      test(
        'test/e2e/messages/rabbitmq-events.test.ts',
        'the broker keeps the event, which is acknowledged once the outcome is stored, and does not run again',
      ),
      model('responses before complete'),
      test(
        'test/faults/chaos.all.test.ts',
        'exits with 1 if the workers do not store what they respond',
      ),
      figures('chaos-messages'),
    ],
  },
  {
    promises: ['One engine, every transport'],
    holds: [
      clauses('C49', 'C61'),
      test(
        'test/e2e/messages/rabbitmq-events.test.ts',
        'is handled once, however often it is published, and each copy is acknowledged',
      ),
      test(
        'test/e2e/messages/kafka.test.ts',
        'that is fetched again, for example after a rebalance, is not handled again, and its offset is committed',
      ),
      test(
        'test/e2e/messages/brokers-without-acknowledgement.test.ts',
        'an event is handled once, however often it is delivered',
      ),
      test(
        'test/e2e/socket/replay.test.ts',
        'runs a handler once, and replays its response to every retry',
      ),
      test(
        'test/e2e/graphql/attempts.test.ts',
        'execute once when twenty arrive concurrently, and later ones get the stored value',
      ),
      test(
        'test/e2e/bullmq/jobs.test.ts',
        'that was added under two job ids runs once, and both return the same value',
      ),
      test(
        'test/e2e/calls/calls.test.ts',
        'runs once for a key, and returns the first value to retries',
      ),
    ],
  },
  {
    promises: ['a request with an unknown caller, an invalid key or an unreachable store'],
    holds: [clauses('C06', 'C10', 'C18', 'C30', 'C83', 'C84', 'C87')],
  },
  {
    promises: ['what cannot be prevented is reported as an event'],
    holds: [
      model('every further effect is reported'),
      simulation('a superseded attempt is not reported', 'a takeover is not counted'),
      test(
        'test/faults/processes/crashes.test.ts',
        'leaves nothing that was not reported to the successor',
      ),
      test(
        'test/faults/store/lost-records.test.ts',
        'is reported by the holder at its end, and its outcome is restored',
      ),
      figures('chaos-kills'),
    ],
  },
  {
    promises: ['one write authority'],
    holds: [
      model('storm, one write authority'),
      model('authority without owners'),
      simulation('the owner is not compared'),
      kit('begin-acquires', 'acquires for one of a hundred concurrent attempts'),
      kit('complete', 'stores one of fifty concurrent outcomes and returns it to the others'),
      test(
        'test/integration/differential/differential.test.ts',
        'give equal replies and leave equal records for any sequence of commands: %s',
      ),
      test(
        'test/integration/differential/postgres.test.ts',
        'give equal replies and leave equal records for any sequence of commands',
      ),
    ],
  },
  {
    promises: ['a stored outcome never changes'],
    holds: [
      model('storm, 2 × 2, 2 contents'),
      model('outcomes replaced'),
      simulation('an outcome is replaced by a later one'),
      kit('complete', 'never changes a stored outcome, not even for its owner'),
      kit('release', 'never deletes an outcome, not even for its owner'),
      test(
        'test/faults/store/late-copies.test.ts',
        'of a heartbeat does not change the retention of a completed record: not_in_progress',
        'of a %s changes nothing once the outcome is stored: %s',
      ),
      test('test/faults/mutants.all.test.ts', 'A scenario objects to'),
    ],
  },
  {
    promises: ['writes by a stale owner are rejected while another owner lives'],
    holds: [
      model('storm, 3 × 1, 2 contents'),
      model('owners not compared'),
      model('fences not compared'),
      simulation('a lost lease still completes'),
      kit('extend', 'replies lost to another token with any fence'),
      kit('complete', 'replies lost to another token while the owner runs, under restore too'),
      kit('release', 'replies lost to another token with any fence, and the owner continues'),
      test(
        'test/faults/store/late-copies.test.ts',
        "of a %s changes nothing once a successor's outcome is stored: %s",
      ),
      test('test/integration/differential/mutants.all.test.ts', 'the comparison detects'),
    ],
  },
  {
    promises: ['begin, complete and release are idempotent for their owner'],
    holds: [
      model('storm, 2 × 2, 2 contents'),
      simulation('a begin that is resent acquires nothing'),
      kit(
        'begin-replays',
        'replies owned, with the same fence, to the copy of a command whose reply was lost',
      ),
      kit('complete', 'replies already to a copy of the command with any fence'),
      kit('release', 'replies already to a copy of the command with any fence'),
      test(
        'test/faults/store/lost-messages.test.ts',
        'of begin: the attempt runs once, as itself',
        "of complete: the outcome is stored once, and the response is the attempt's own",
        'of release: the key is free at once',
      ),
    ],
  },
  {
    promises: ['two clients never get different successes for one record'],
    holds: [
      model('storm, 2 × 2, 2 contents'),
      simulation(
        'the response leaves before complete is confirmed',
        'the caller of a superseded attempt gets its own outcome',
      ),
      test(
        'test/integration/engine/settlements.test.ts',
        'returns the stored success of the other attempt: superseded',
      ),
      test(
        'test/faults/processes/pauses.test.ts',
        'is superseded, and responds with the outcome of its successor',
      ),
      figures('chaos-pauses-error'),
      figures('chaos-partition-error'),
    ],
  },
  {
    promises: ['at most one successful execution per key per retention window'],
    holds: [
      model('calm, 2 × 2, 2 contents'),
      model('calm, 3 × 1, 2 contents'),
      simulation('a record is released while its handler is running'),
      kit(
        'begin-acquires',
        'acquires anew, even for another request, exactly when the outcome expires',
      ),
      test(
        'test/faults/store/restarts.test.ts',
        'with appendfsync always under load: no acknowledged record is lost',
      ),
      test('test/integration/postgres/concurrency.test.ts', 'end with one outcome for all'),
      figures('chaos-storms'),
      figures('chaos-cluster-wait'),
    ],
  },
  {
    promises: ['committed effect happens at most once'],
    holds: [
      model('transactional, 2 × 2'),
      model('transactional, 3 × 1'),
      model('transactional, 2 × 3'),
      model('commits assumed'),
      test(
        'test/faults/transactions/crashes.test.ts',
        'After any death or break, each key has one row, which is the one that its clients received',
      ),
      test('test/faults/transactions/pauses.all.test.ts', 'leaves one row for each key'),
      test(
        'test/faults/transactions/mutants.all.test.ts',
        'The oracle objects to a transactional worker with the mistake',
      ),
      figures('chaos-postgres-transactional'),
    ],
  },
  {
    promises: ['every further execution is reported'],
    holds: [
      model('every further effect is reported'),
      model('takeovers not reported'),
      simulation(
        'a takeover after a release is not reported',
        'a lease that is over is not reported',
      ),
      test(
        'test/faults/processes/pauses.test.ts',
        'has reported the repeated execution to both owners',
      ),
      test(
        'test/faults/processes/pauses.all.test.ts',
        'has reported each repeated execution to both owners',
      ),
      figures('chaos-kills'),
      figures('chaos-pauses-respond'),
      figures('chaos-postgres-ordinary'),
    ],
  },
  {
    promises: ['If a record vanishes while its owner runs, the owner reports it'],
    holds: [
      simulation(
        'a record that had to be restored is not reported',
        'an outcome whose record has vanished is not restored',
      ),
      test(
        'test/faults/store/lost-records.test.ts',
        'is reported by the holder at its end, and its outcome is restored',
        'with volatile-lru is reported at the start; the holder of an evicted record reports it',
      ),
      test(
        'test/integration/engine/settlements.test.ts',
        'detects it at the next heartbeat: the signal aborts and events are emitted',
      ),
      test(
        'test/faults/failover/sentinel.all.test.ts',
        'a record in progress is lost: its holder reports it, and restores the outcome',
      ),
    ],
  },
  {
    promises: ['No key is stuck'],
    holds: [
      model('no key is stuck'),
      model('denied for ever'),
      simulation('a lease that lies further ahead than its length is not shortened'),
      test(
        'test/faults/processes/crashes.test.ts',
        'at the point %s leaves a key that is released with its lease, and one effect',
        'leaves the outcome unknown with onTakeover: "reject": no second effect for any client',
      ),
      test(
        'test/faults/processes/pauses.all.test.ts',
        'loses the key at the hard deadline, heartbeats or not',
      ),
      test(
        'test/faults/failover/server-clock.test.ts',
        "does not keep a dead owner's lease alive for longer than its duration",
      ),
      figures('chaos-kills'),
    ],
  },
  {
    promises: ["exactly-once for effects outside the store's transaction"],
    holds: [
      model('one effect, leases outlived'),
      test(
        'test/faults/processes/crashes.test.ts',
        'at the point %s leaves an effect that a takeover repeats, and the takeover is reported',
      ),
      figures('chaos-kills'),
    ],
  },
  {
    promises: ['detecting the loss of a completed record'],
    holds: [
      test(
        'test/faults/failover/sentinel.all.test.ts',
        'a completed record is lost: the loss is undetectable, and the operation runs again',
      ),
      test(
        'test/faults/store/restarts.test.ts',
        'without AOF: the loss of a completed record is undetectable, and it runs again',
      ),
      figures('chaos-sentinel'),
    ],
  },
];
