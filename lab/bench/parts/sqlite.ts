import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storePair, storeReplay, type Task } from '../../measure/postgres/contestants.js';
import type { NodeSqlite } from '../../../test/support/sqlite/node-sqlite.js';
import { loadEntry } from '../library/built-entry.js';
import { closedLoop } from '../measuring/closed-loop.js';
import { interleave, type Entrant, type Group } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { roundsOf, type Part, type PartContext } from './part.js';

const KNOWN_KEYS = 2_000;
const IN_FLIGHT = [1, 32];
const BODY = Buffer.alloc(200, 'x');

const ROUNDS = {
  quick: { rounds: 3, roundMs: 300, warmUpMs: 300 },
  default: { rounds: 9, roundMs: 700, warmUpMs: 500 },
} as const;

/** The store on one file beside the two statements that one would write by hand, through the same driver. */
export const sqlitePart: Part = {
  name: 'sqlite',
  needsPeers: false,
  run: (context) => measureSqlite(context),
};

function measureSqlite(context: PartContext) {
  const { library, onProgress } = context;
  return withResources(async (resources) => {
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-bench-sqlite-'));
    resources.defer(() => {
      rmSync(folder, { recursive: true, force: true });
    });
    const { sqliteStore } = await loadEntry<typeof import('nestjs-idempotency/sqlite')>(
      library,
      './sqlite',
    );
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as NodeSqlite;
    const groups: Group[] = [];
    for (const synchronous of ['full', 'normal'] as const) {
      const store = sqliteStore({ path: join(folder, `store-${synchronous}`), synchronous });
      await store.open();
      resources.defer(() => store.close());
      const database = new DatabaseSync(join(folder, `by-hand-${synchronous}`));
      resources.defer(() => {
        database.close();
      });
      database.exec('PRAGMA journal_mode = WAL');
      database.exec(`PRAGMA synchronous = ${synchronous}`);
      database.exec('CREATE TABLE by_hand (key TEXT PRIMARY KEY, state TEXT, body BLOB)');
      const insert = database.prepare(
        "INSERT INTO by_hand VALUES (?, 'in_progress', NULL) ON CONFLICT DO NOTHING",
      );
      const update = database.prepare(
        "UPDATE by_hand SET state = 'completed', body = ? WHERE key = ?",
      );
      const select = database.prepare('SELECT state, body FROM by_hand WHERE key = ?');
      const pairByHand: Task = (key) => {
        const name = key.toString('base64url');
        insert.run(name);
        update.run(BODY, name);
        return Promise.resolve();
      };
      const replayByHand: Task = (key) => {
        const name = key.toString('base64url');
        insert.run(name);
        if (select.get(name) === undefined) throw new Error('no record');
        return Promise.resolve();
      };
      const known = Array.from({ length: KNOWN_KEYS }, newKey);
      const anyKnown = () => known[Math.floor(Math.random() * KNOWN_KEYS)]!;
      await Promise.all(known.map(storePair(store)));
      await Promise.all(known.map(pairByHand));
      for (const inFlight of IN_FLIGHT) {
        const entrant = (name: string, task: Task, key: () => Buffer): Entrant => ({
          name,
          run: (ms) => closedLoop(() => task(key()), { inFlight, ms }),
        });
        groups.push(
          {
            factors: { task: 'pair', synchronous, inFlight },
            entrants: [
              entrant('nestjs-idempotency', storePair(store), newKey),
              entrant('INSERT + UPDATE', pairByHand, newKey),
            ],
          },
          {
            factors: { task: 'replay', synchronous, inFlight },
            entrants: [
              entrant('nestjs-idempotency', storeReplay(store), anyKnown),
              entrant('INSERT, then SELECT', replayByHand, anyKnown),
            ],
          },
        );
      }
    }
    const rounds = roundsOf(context, ROUNDS);
    const measurements = await interleave(groups, rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    return { measurements, rounds, versions: { SQLite: process.versions.sqlite ?? '' } };
  });
}

function newKey(): Buffer {
  return randomBytes(32);
}
