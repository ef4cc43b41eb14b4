import type { Evidence } from './evidence-page.js';
import { figures, kit, simulation, test } from './holdings.js';

const SENTINEL_ALL = 'test/faults/failover/sentinel.all.test.ts';
const CLUSTER_ALL = 'test/faults/failover/cluster.all.test.ts';
const PARTITION_ALL = 'test/faults/failover/partition.all.test.ts';
const SERVER_CLOCK = 'test/faults/failover/server-clock.test.ts';
const TRANSACTION_CRASHES = 'test/faults/transactions/crashes.test.ts';
const TRANSACTION_PAUSES = 'test/faults/transactions/pauses.all.test.ts';
const TRANSACTIONAL_HTTP = 'test/e2e/transactional/http.test.ts';

/** What holds the rows about failovers, clocks and transactions: each is found by its first cell. */
export const SERVERS: readonly Evidence[] = [
  {
    promises: ['a failover, the record in progress had not arrived'],
    holds: [
      simulation('an outcome whose record has vanished is not restored'),
      test(
        SENTINEL_ALL,
        'a record in progress is lost: its holder reports it, and restores the outcome',
        '… acquired by a duplicate meanwhile: its holder is superseded, and all get one outcome',
      ),
    ],
  },
  {
    promises: ['a failover, the outcome had not arrived'],
    holds: [
      test(
        SENTINEL_ALL,
        'a completed record is lost: the loss is undetectable, and the operation runs again',
      ),
      figures('chaos-sentinel'),
    ],
  },
  {
    promises: [
      'the old primary is cut off, and still takes writes',
      'old primary behind a partition',
    ],
    holds: [
      test(
        'test/faults/failover/partition.test.ts',
        'gives one key to two owners; the one in flight is notified at the reunion',
      ),
      test(
        PARTITION_ALL,
        'loses at the reunion what it confirmed meanwhile: the loss is undetectable',
        'rejects writes (NOREPLICAS): 503, while the other side continues with the key',
      ),
    ],
  },
  {
    promises: [
      'a slot of the cluster is not covered, or moves',
      'a slot moves',
      'a slot without a server',
    ],
    holds: [
      test(
        CLUSTER_ALL,
        'is followed by attempts, duplicates and new keys alike (ASK, MOVED)',
        'does not disturb clients while requests arrive',
        'makes its keys unavailable (503, retryable), and no others',
      ),
      figures('chaos-cluster'),
    ],
  },
  {
    promises: ["Redis' clock jumps", 'server clock an hour ahead', 'server clock an hour back'],
    holds: [
      simulation(
        'a lease that lies further ahead than its length is not shortened',
        'the fence comes from the clock alone',
      ),
      test(
        SERVER_CLOCK,
        'ends a lease in flight: a takeover, reported to the second, and superseded, reported to the first',
        'determines when a retention of half an hour ends',
        'does not affect an attempt in flight and its duplicates',
        "does not keep a dead owner's lease alive for longer than its duration",
      ),
      kit(
        'clock-steps-back',
        'shortens a lease that ends further ahead than its own length, and stores that',
      ),
    ],
  },
  {
    promises: ['the clock of a client or of the process jumps', "a worker's clock"],
    holds: [
      test(
        'test/faults/failover/client-clocks.test.ts',
        'does not affect an attempt: its lease neither ends nor grows',
        'does not affect a begin: it sends the same time limit to the server, and is not late',
      ),
    ],
  },

  {
    promises: ['primary dies (Sentinel, Cluster)'],
    holds: [
      test(
        'test/faults/failover/sentinel.test.ts',
        'after a crash of the primary: attempts in progress continue, and requests meanwhile succeed in the end',
      ),
      test(
        CLUSTER_ALL,
        'after a crash of a primary: losses in flight are reported, the rest continues',
      ),
      figures('chaos-sentinel'),
      figures('chaos-cluster'),
    ],
  },
  {
    promises: ['planned `SENTINEL FAILOVER`'],
    holds: [
      test(
        SENTINEL_ALL,
        'planned: attempts in progress continue, and duplicates get their outcomes',
      ),
      test(PARTITION_ALL, 'is abandoned by its worker, if the connection subscribes to them'),
      test(
        'test/integration/redis/wait-replicas.test.ts',
        'a completion that no replica confirms is sent again until one does',
      ),
      figures('chaos-sentinel-wait'),
    ],
  },
  {
    promises: ['planned `CLUSTER FAILOVER`'],
    holds: [
      test(
        'test/faults/failover/cluster.test.ts',
        'planned: attempts in progress continue, and duplicates get their outcomes',
      ),
    ],
  },
  {
    promises: ['primary turned replica under an open connection'],
    holds: [
      test(
        SENTINEL_ALL,
        'is abandoned by the connection for the new one, and the same attempt begins there',
      ),
      test(
        'test/integration/redis/server-errors.test.ts',
        'the store reconnects its own connection to the new primary',
      ),
    ],
  },

  {
    promises: ['the process dies before COMMIT has reached the server'],
    holds: [
      test(
        TRANSACTION_CRASHES,
        'at the point %s leaves nothing, and the next attempt does everything',
      ),
    ],
  },
  {
    promises: ['it dies after that'],
    holds: [
      test(
        TRANSACTION_CRASHES,
        'after COMMIT leaves everything, which is replayed, though no client received it',
      ),
    ],
  },
  {
    promises: ['the process is frozen (SIGSTOP) within its transaction'],
    holds: [
      test(TRANSACTION_PAUSES, 'keeps its key as long as its transaction is open, and finishes'),
      test(TRANSACTIONAL_HTTP, 'loses its key and its writes at the hard deadline'),
    ],
  },
  {
    promises: ['it stands still before its transaction, beyond its lease'],
    holds: [
      test(
        TRANSACTION_PAUSES,
        'before it has locked the record is taken over, and its transaction never begins',
      ),
    ],
  },
  {
    promises: ['the connection is cut, or `pg_terminate_backend`'],
    holds: [
      test(TRANSACTION_CRASHES, 'before COMMIT leaves nothing: 503, and a retry may run at once'),
      test(
        TRANSACTIONAL_HTTP,
        'responds with 503 when its connection is lost, and has written nothing',
      ),
      figures('chaos-postgres-transactional'),
    ],
  },
  {
    promises: ['the same while COMMIT is under way'],
    holds: [
      test(
        TRANSACTION_CRASHES,
        'during COMMIT leaves all or nothing',
        'during COMMIT responds with what the record says',
      ),
      test(
        'test/e2e/transactional/commits.test.ts',
        'that happened counts, even if the connection then fails',
        'that did not happen does not count: the request gets 503, and the next one runs',
      ),
    ],
  },
  {
    promises: ['serialization failure, deadlock'],
    holds: [
      test(
        TRANSACTIONAL_HTTP,
        'reports a conflict to one of two transactions that exclude each other',
      ),
    ],
  },
];
