import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import {
  NOTHING_TOLERATED,
  UNAVAILABLE,
  type Expectations,
} from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';
import { afterTest } from '../../support/jest/after-test.js';
import { findMariaDb } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { TcpRelay } from '../../support/servers/tcp-relay.js';
import { hasSqlite, SqliteFolder } from '../../support/sqlite/sqlite-file.js';

const LIMIT_MS = 30_000;
/** The clock of these processes cannot be driven: what waits for the end of a lease waits for so long. */
const options = { lease: { duration: 1_000 } };
const KEYS = 40;
const DUPLICATES = 4;
/** Between two troubles of the network. */
const PAUSE_MS = 50;

const mariadb = findMariaDb();
const onMariaDb = mariadb === undefined ? describe.skip : describe;
const onSqlite = hasSqlite ? describe : describe.skip;

onMariaDb(`workers on ${mariadb?.name ?? 'MariaDB'}`, () => {
  const server = useMysql();
  let url: string;

  beforeAll(async () => {
    url = await server.newDatabase();
    const store = mysqlStore({ url });
    await store.migrate();
    await store.close();
  });

  describeDeathsAndPauses(() => ({ kind: 'mysql', url }));

  describe('on a network that breaks connections and loses replies', () => {
    let lab: Lab;
    let relay: TcpRelay;
    let workers: LabWorker[];

    beforeAll(async () => {
      lab = await Lab.set();
      relay = await TcpRelay.start(server.port);
      const far = { kind: 'mysql', url: relay.through(url) } as const;
      // Longer than anything in here takes: nothing may be taken over.
      const start = () => lab.start(far, { options: { lease: { duration: 60_000 } } });
      workers = await Promise.all([start(), start()]);
    }, 60_000);

    afterAll(async () => {
      await lab.clear();
      await relay.stop();
    });

    it.each([
      ['lost replies', 'lost', () => relay.breakAtNextReply()],
      ['cut connections', 'cut', () => relay.cut()],
    ] as const)(
      'run each operation once, with %s [P01]',
      async (_, name, trouble) => {
        const urls = workers.map((worker) => worker.url);
        let troubles = 0;
        const timer = setInterval(() => {
          trouble();
          troubles += 1;
        }, PAUSE_MS);
        afterTest(() => {
          clearInterval(timer);
        });
        const keys = Array.from({ length: KEYS }, (_, index) => `${name}-${index}`);
        for (const key of keys) {
          const duplicates = Array.from({ length: DUPLICATES }, (_, index) =>
            lab.client.ask(() => [urls[index % 2]!, urls[(index + 1) % 2]!], key, {
              limitMs: LIMIT_MS,
            }),
          );
          const digests = (await Promise.all(duplicates)).map(({ status, digest }) => {
            expect(status).toBe(201);
            return digest;
          });
          expect(new Set(digests).size).toBe(1);
        }
        for (const key of keys) expect(lab.effects(key)).toHaveLength(1);
        expect(troubles).toBeGreaterThan(10);
        expect(relay.connections).toBeGreaterThan(workers.length + 10);
      },
      300_000,
    );

    it('leave nothing that the oracle objects to', () => {
      const allowed: Expectations = {
        ...NOTHING_TOLERATED,
        outages: true,
        otherResponses: [...NOTHING_TOLERATED.otherResponses, ...UNAVAILABLE],
      };
      const { objections, figures } = lab.judge(allowed);
      expect(objections).toEqual([]);
      expect(figures).toMatchObject({ keysExecutedTwice: 0, executions: 2 * KEYS });
    });
  });
});

onSqlite('workers on one file of SQLite', () => {
  const folder = new SqliteFolder();
  afterAll(() => {
    folder.remove();
  });

  describeDeathsAndPauses(() => ({ kind: 'sqlite', path: folder.path }));
});

function describeDeathsAndPauses(store: () => StoreSettings): void {
  describe('that die or stand still', () => {
    let lab: Lab;
    let survivor: LabWorker;

    beforeAll(async () => {
      lab = await Lab.set();
      survivor = await lab.start(store(), { options });
    }, 60_000);

    afterAll(() => lab.clear());

    it.each(['after_effect', 'before_complete'] as const)(
      'kill -9 at the point %s leaves an effect that a takeover repeats, and reports [P17, P37]',
      async (point) => {
        const victim = await lab.start(store(), { options });
        const mishap = { point, action: { kind: 'crash' } } as const;
        const lost = await lab.client.send(victim.url, point, { mishap });
        expect(lost).toMatchObject({ error: 'ECONNRESET' });
        await victim.untilExit();
        const response = await lab.client.ask(() => [survivor.url], point, { limitMs: LIMIT_MS });
        expect(response).toMatchObject({ status: 201, replayed: false });
        expect(lab.effects(point)).toMatchObject([
          { attempt: 1, isTakeover: false },
          { attempt: 2, isTakeover: true, worker: survivor.name },
        ]);
      },
      60_000,
    );

    it('kill -9 after the outcome is stored loses nothing: the retry is a replay', async () => {
      const victim = await lab.start(store(), { options });
      const mishap = { point: 'after_complete', action: { kind: 'crash' } } as const;
      await lab.client.send(victim.url, 'stored', { mishap });
      await victim.untilExit();
      const response = await lab.client.ask(() => [survivor.url], 'stored', { limitMs: LIMIT_MS });
      expect(response).toMatchObject({ status: 201, replayed: true });
      expect(lab.effects('stored')).toHaveLength(1);
    }, 60_000);

    it('one that SIGSTOP holds beyond its lease responds with the outcome of its successor [P11, P38]', async () => {
      const paused = await lab.start(store(), { options });
      const held = { point: 'after_effect', action: { kind: 'hold' } } as const;
      const late = lab.client.send(paused.url, 'paused', { mishap: held });
      await lab.untilEffect('paused');
      paused.stop();
      const second = await lab.client.ask(() => [survivor.url], 'paused', { limitMs: LIMIT_MS });
      paused.continue();
      paused.releaseUnowned();
      expect(second).toMatchObject({ status: 201, replayed: false });
      expect(await late).toMatchObject({ status: 201, replayed: true, digest: second.digest });
      const fences = lab.effects('paused').map(({ fence }) => fence);
      expect(fences).toHaveLength(2);
      expect(lab.eventsOf('paused')).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ type: 'takeover', fence: Math.max(...fences) }),
          expect.objectContaining({ type: 'superseded', fence: Math.min(...fences) }),
        ]),
      );
    }, 60_000);

    it('leave nothing that was not reported to the successor [P06]', () => {
      const { objections, figures } = lab.judge({
        ...NOTHING_TOLERATED,
        extraExecutions: 'reported to the second',
        brokenConnections: true,
      });
      expect(objections).toEqual([]);
      expect(figures).toMatchObject({ extraExecutions: 3, reportedToSecond: 3 });
    });
  });
}
