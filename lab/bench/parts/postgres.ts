import { randomBytes } from 'node:crypto';
import { Pool } from 'pg';
import {
  insertThenSelect,
  rawPair,
  storePair,
  storeReplay,
  type Task,
} from '../../measure/postgres/contestants.js';
import { startPostgres } from '../../../test/support/postgres/postgres-server.js';
import { loadEntry } from '../library/built-entry.js';
import { closedLoop } from '../measuring/closed-loop.js';
import { interleave, type Entrant } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { installed } from '../measuring/versions.js';
import { roundsOf, type Part, type PartContext } from './part.js';

const CONNECTIONS = 16;
const KNOWN_KEYS = 2_000;

const ROUNDS = {
  quick: { rounds: 3, roundMs: 300, warmUpMs: 500 },
  default: { rounds: 7, roundMs: 1_000, warmUpMs: 1_000 },
} as const;

/** The PostgreSQL store beside the statements that one would write by hand. */
export const postgresPart: Part = {
  name: 'postgres',
  needsPeers: false,
  run: (context) => measurePostgres(context),
};

function measurePostgres(context: PartContext) {
  const { library, onProgress } = context;
  return withResources(async (resources) => {
    // As one runs it where money is at stake: a commit is on the disk before it is confirmed.
    const server = await startPostgres({ settings: { fsync: 'on' } });
    resources.defer(() => server.stop());
    const url = await server.newDatabase();
    const pool = new Pool({ connectionString: url, max: CONNECTIONS });
    pool.on('error', () => undefined);
    resources.defer(() => pool.end());
    const { migrate, postgresStore } = await loadEntry<
      typeof import('nestjs-idempotency/postgres')
    >(library, './postgres');
    const store = postgresStore({ url, connection: { max: CONNECTIONS } });
    resources.defer(() => store.close());
    await store.migrate();
    await migrate({ url, table: 'by_hand' });

    const known = Array.from({ length: KNOWN_KEYS }, newKey);
    for (const task of [storePair(store), rawPair(pool, 'by_hand')]) await once(known, task);
    const anyKnown = () => known[Math.floor(Math.random() * KNOWN_KEYS)]!;
    const entrant = (name: string, task: Task, key: () => Buffer): Entrant => ({
      name,
      run: (ms) => closedLoop(() => task(key()), { inFlight: CONNECTIONS, ms }),
    });
    const groups = [
      {
        factors: { task: 'pair' },
        entrants: [
          entrant('nestjs-idempotency', storePair(store), newKey),
          entrant('INSERT + UPDATE', rawPair(pool, 'by_hand'), newKey),
        ],
      },
      {
        factors: { task: 'replay' },
        entrants: [
          entrant('nestjs-idempotency', storeReplay(store), anyKnown),
          entrant('INSERT, then SELECT', insertThenSelect(pool, 'by_hand'), anyKnown),
        ],
      },
    ];
    const rounds = roundsOf(context, ROUNDS);
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const { rows } = await pool.query<{ server_version: string }>('SHOW server_version');
    const versions = { PostgreSQL: rows[0]?.server_version ?? '', pg: installed('pg') };
    return { measurements, rounds, versions };
  });
}

function newKey(): Buffer {
  return randomBytes(32);
}

async function once(keys: readonly Buffer[], task: Task): Promise<void> {
  const left = keys.values();
  const worker = async () => {
    for (const key of left) await task(key);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}
