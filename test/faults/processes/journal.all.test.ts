import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { postgresStore } from 'nestjs-idempotency/postgres';
import { redisStore } from 'nestjs-idempotency/redis';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { recordKeyOf } from '../../../lab/faults/extra-executions.js';
import type { EventLine } from '../../../lab/faults/worker/lines.js';
import { SERVICE, type StoreSettings } from '../../../lab/faults/worker/settings.js';
import { afterTest } from '../../support/jest/after-test.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { newToken } from '../../support/stores/commands.js';

const KEYS = 2_000;
const WORKERS = 3;
const AT_ONCE = 24;
const EFFECT_MS = 15;
const TIMEOUT_MS = 600_000;
const LIMIT_MS = 60_000;
const JOURNAL = { service: SERVICE, version: '1' };

const redis = useRedis();
const postgres = usePostgres();

interface Entry {
  readonly recordKey: string;
  readonly kind: string;
  readonly fence: number;
}

interface Place {
  readonly settings: StoreSettings;
  readonly store: IdempotencyStore;
  readonly entries: () => Promise<Entry[]>;
}

function onRedis(): Promise<Place> {
  const { url } = redis;
  const journal = { ...JOURNAL, maxLength: 1_000_000 };
  const client = new Redis(url);
  afterTest(() => client.disconnect());
  return Promise.resolve({
    settings: { kind: 'redis', url, options: { journal } },
    store: redisStore({ url, journal }),
    entries: async () =>
      (await client.xrange('idem:journal', '-', '+')).map(([, words]) => {
        const [, kind = '', , recordKey = '', , record = ''] = words;
        return { recordKey, kind, fence: Number(/^2\w(\d+)/.exec(record)?.[1]) };
      }),
  });
}

async function onPostgres(): Promise<Place> {
  const url = await postgres.newDatabase();
  const store = postgresStore({ url, journal: JOURNAL });
  await store.migrate();
  const pool = openPostgresPool(url);
  afterTest(() => pool.end());
  return {
    settings: { kind: 'postgres', url, journal: JOURNAL },
    store,
    entries: async () => {
      const { rows } = await pool.query<Entry>(
        `SELECT translate(rtrim(encode(record_key, 'base64'), '='), '+/', '-_') AS "recordKey", kind, fence::float8 AS fence
         FROM idempotency_journal`,
      );
      return rows;
    },
  };
}

/** Stands for `acquired` or `takeover`. */
const BEGUN = 'begun';

/** What a line of a worker says that the journal has to say once, too. */
function saidBy(line: EventLine): Entry | undefined {
  if (!('recordKey' in line) || !('fence' in line)) return;
  const { recordKey, fence, type } = line;
  if (line.type === 'lab:began') {
    // Of a copy of the command: the first one may be either.
    return { recordKey, fence, kind: line.reply === 'owned' ? BEGUN : line.reply };
  }
  // Also the first attempt after one that took over and released the key has the event.
  if (type === 'takeover') return { recordKey, fence, kind: BEGUN };
  if (line.type !== 'lab:settled') {
    return type === 'superseded' ? { recordKey, fence, kind: type } : undefined;
  }
  if (line.reply === 'superseded') return { recordKey, fence, kind: 'superseded' };
  const isOwn = line.reply === 'ok' || line.reply === 'ok_late';
  const kind = line.step === 'complete' ? 'completed' : 'released';
  return isOwn ? { recordKey, fence, kind } : undefined;
}

const textOf = ({ recordKey, kind, fence }: Entry) => `${recordKey} ${kind} ${String(fence)}`;

it.each([
  ['Redis', onRedis],
  ['PostgreSQL', onPostgres],
])(
  'The journal on %s has each change once, of processes that die by kill -9 and of an operator',
  async (_, open) => {
    const { settings, store, entries } = await open();
    afterTest(() => store.close());
    const lab = await Lab.set();
    afterTest(() => lab.clear());
    const start = () =>
      lab.start(settings, {
        options: { lease: { duration: 1_500 } },
        effectDelayMs: EFFECT_MS,
      });
    const workers: LabWorker[] = await Promise.all(Array.from({ length: WORKERS }, start));
    const urls = () => workers.map(({ url }) => url);
    const keys = Array.from({ length: KEYS }, (_each, at) => `key-${String(at)}`);
    const settled: Entry[] = [];
    const left = keys.values();
    let isDone = false;

    const client = async () => {
      for (const key of left) {
        const asking = lab.client.ask(urls, key, { limitMs: LIMIT_MS });
        if (keys.indexOf(key) % 10 === 0) await settle(key);
        await asking;
      }
    };
    /** As an operator who overrules the attempt that has the record: what it then stores is another's. */
    const settle = async (key: string) => {
      const recordKey = recordKeyOf(key);
      let seen: Awaited<ReturnType<typeof store.inspect>>;
      for (let look = 0; look < 100 && seen === undefined; look += 1) {
        await delay(EFFECT_MS / 3);
        seen = await store.inspect(recordKey, { timeoutMs: LIMIT_MS });
      }
      if (seen?.state !== 'in_progress') return;
      const reply = await store.amend({
        recordKey,
        token: newToken(),
        expected: { state: seen.state, fence: seen.fence },
        change: {
          kind: 'settle',
          state: 'completed',
          outcome: { header: '-', body: Buffer.alloc(0) },
          retentionMs: 3_600_000,
        },
        evenIfRunning: true,
        notBefore: 0,
        timeoutMs: LIMIT_MS,
      });
      if (reply?.kind === 'ok') settled.push({ recordKey, kind: 'settled', fence: reply.fence });
    };
    let deaths = 0;
    const killer = async () => {
      await delay(400);
      while (!isDone) {
        const [victim] = workers;
        if (victim === undefined) return;
        await lab.kill(victim);
        deaths += 1;
        workers.shift();
        workers.push(await start());
        await delay(400);
      }
    };
    const killing = killer();
    await Promise.all(Array.from({ length: AT_ONCE }, client));
    isDone = true;
    await killing;
    await lab.terminate();

    const counts = new Map<string, number>();
    for (const entry of await entries()) {
      counts.set(textOf(entry), (counts.get(textOf(entry)) ?? 0) + 1);
    }
    expect([...counts].filter(([, count]) => count !== 1)).toEqual([]);
    const said = [...lab.events().flatMap((line) => saidBy(line) ?? []), ...settled].map(textOf);
    const begins = [...counts.keys()].map((text) =>
      text.replace(/ (?:acquired|takeover) /, ` ${BEGUN} `),
    );
    const known = new Set([...counts.keys(), ...begins]);
    expect(said.filter((text) => !known.has(text))).toEqual([]);
    // What a process could not write down before it died, the record says: how often it was begun, and who ended it.
    const unsaid = [...counts.keys()].filter((text) => !new Set(said).has(text));
    const kinds = (of: string) => [...counts.keys()].filter((text) => text.includes(` ${of} `));
    for (const key of keys) {
      const recordKey = recordKeyOf(key);
      const own = [...counts.keys()].filter((text) => text.startsWith(`${recordKey} `));
      const record = await store.inspect(recordKey, { timeoutMs: LIMIT_MS });
      const begun = own.filter((text) => / (?:acquired|takeover) /.test(text));
      expect([key, begun.length]).toEqual([key, record?.attempt]);
      const ended = own.filter((text) => / (?:completed|settled) /.test(text));
      expect(ended).toEqual([expect.stringContaining(` ${String(record?.fence)}`)]);
    }
    const figures = {
      deaths,
      entries: counts.size,
      takeovers: kinds('takeover').length,
      superseded: kinds('superseded').length,
      settled: settled.length,
      unsaid: unsaid.length,
    };
    process.stdout.write(`${JSON.stringify(figures)}\n`);
    for (const count of [deaths, figures.takeovers, figures.superseded, figures.settled]) {
      expect(count).toBeGreaterThan(0);
    }
  },
  TIMEOUT_MS,
);
