import { describe, expect, it } from '@jest/globals';
import { IdempotencyMeter } from 'nestjs-idempotency';
import type { BlobStore } from 'nestjs-idempotency/store';
import { platforms } from '../../support/http/combinations.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { until } from '../../support/waiting/until.js';
import {
  ask,
  blobs,
  connectionsOf,
  digestOf,
  failingAfter,
  gated,
  LARGE,
  MAX_BYTES,
  receive,
  run,
  start,
  type Started,
} from './support/large-files.js';

const DELIVERIES = ['stored-first', 'hold-last'] as const;

/** Each platform and each delivery once; `npm run test:all` covers the other pairs. */
const PAIRS = platforms.flatMap((platform, index) =>
  DELIVERIES.filter((_, each) => isTestAll || each === index).map(
    (delivery) => [platform, delivery] as const,
  ),
);

const NOT_KEPT = { status: 409, problem: 'idempotency_response_not_kept', isReplayed: false };

/** How many bodies a store takes at a time, and at most did. */
function counted(store: BlobStore) {
  const counts = { now: 0, most: 0, begun: 0 };
  const put: BlobStore['put'] = async (name, ...rest) => {
    if (name.includes('/probe/')) return store.put(name, ...rest);
    counts.begun += 1;
    counts.now += 1;
    counts.most = Math.max(counts.most, counts.now);
    await store.put(name, ...rest).finally(() => (counts.now -= 1));
  };
  return { counts, store: Object.create(store, { put: { value: put } }) as BlobStore };
}

describe.each(PAIRS)(
  'On %s, delivered %s, of more large bodies than limits.maxUploads',
  (platform, delivery) => {
    /** Of bodies that are stored one at a time. */
    async function crowded(store?: BlobStore, maxUploads = 1) {
      const started = await start(platform, {
        ...(store && { blobs: store }),
        limits: { maxUploads },
        outcome: { maxBytes: MAX_BYTES, offload: { aboveBytes: 50_000, delivery } },
      });
      return {
        ...started,
        post: (path: string, key: string) => receive(ask(started.app.port, path, key)),
      };
    }
    const waits = ({ app }: Pick<Started, 'app'>) =>
      app.nest.get(IdempotencyMeter, { strict: false }).read().uploadWaits;
    const endOf = async ({ events }: Pick<Started, 'events'>, ended: number) => {
      await until(() => events.filter(({ type }) => type === 'ended').length === ended);
    };
    const whole = (execution: number) => ({
      status: 201,
      bytes: LARGE,
      digest: digestOf(execution),
      error: undefined,
    });
    const refused = delivery === 'hold-last' ? { error: 'ECONNRESET' } : NOT_KEPT;

    it('no more are put at a time; the others wait with their handlers, in turn, and all are stored', async () => {
      const { blobs: held, gate, arrived } = gated();
      const { store, counts } = counted(held);
      const app = await crowded(store, 2);
      const paths = ['writes', 'writes', 'writes', 'writes', 'buffer', 'buffer'];
      const sent: Promise<unknown>[] = [];
      for (const [index, path] of paths.entries()) {
        sent.push(app.post(path, `k${index}`).sent);
        await until(() => run.executions === index + 1);
      }
      await arrived.pass();
      await until(() => run.heldAt.filter(Number).length === 4);
      expect(counts.begun).toBe(2);
      for (const bytes of run.heldAt.slice(2)) expect(bytes).toBeLessThan(MAX_BYTES + 400_000);
      expect(await blobs()).toEqual([]);
      gate.open();
      const all = await Promise.all(sent);
      for (const [index, each] of all.entries()) expect(each).toMatchObject(whole(index + 1));
      for (const [index, path] of paths.entries()) {
        const replay = { ...whole(index + 1), isReplayed: true };
        expect(await app.send(path, `k${index}`)).toMatchObject(replay);
      }
      expect([counts.most, run.executions]).toEqual([2, paths.length]);
      expect(waits(app)).toMatchObject({ begun: { count: paths.length - 2 } });
    });

    it('one that gets no place within outcome.offload.putTimeout is not kept, and runs once', async () => {
      const { blobs: store, gate, arrived } = gated();
      const app = await crowded(store);
      const first = app.post('file', 'first');
      await arrived.pass();
      expect(await app.post('impatient', 'late').sent).toMatchObject(refused);
      await endOf(app, 1);
      expect(app.events).toContainEqual(
        expect.objectContaining({
          type: 'pack_failed',
          errorType: 'idempotency_uploads_full',
          error: expect.objectContaining({
            message: expect.stringMatching(/within 200 ms.*"limits\.maxUploads".* 1\./),
          }),
        }),
      );
      expect(waits(app)).toMatchObject({ timeout: { count: 1 } });
      gate.open();
      expect(await first.sent).toMatchObject(whole(1));
      expect(await app.send('impatient', 'late')).toMatchObject(NOT_KEPT);
      expect(await app.send('file', 'next')).toMatchObject(whole(3));
      expect(run.executions).toBe(3);
      expect(await blobs()).toHaveLength(2);
    });

    it.each([
      ['fails', false],
      ['stands still', true],
    ])('each gives its place back where the store %s', async (_, isMute) => {
      const { store, counts } = counted(failingAfter(1_000_000, isMute));
      const app = await crowded(store);
      const keys = ['a', 'b', 'c'];
      const sent = await Promise.all(keys.map((key) => app.post('impatient', key).sent));
      const full = app.events.filter(
        (event) => event.type === 'pack_failed' && event.errorType === 'idempotency_uploads_full',
      );
      for (const each of sent) expect(each).toMatchObject(refused);
      // One that stands still has its place for as long as another one waits.
      expect(counts.begun + full.length).toBe(keys.length);
      const begun = counts.begun;
      expect(await app.post('impatient', 'd').sent).toMatchObject(refused);
      expect([counts.begun, counts.most]).toEqual([begun + 1, 1]);
    });

    it('those whose clients have left are stored, too, and the next one after them', async () => {
      const { blobs: store, gate, arrived } = gated();
      const app = await crowded(store);
      for (const [index, key] of ['putting', 'waiting'].entries()) {
        const lost = ask(app.app.port, 'writes', key).end();
        lost.once('error', () => undefined);
        await until(() => run.heldAt[index] !== undefined);
        if (index === 0) await arrived.pass();
        lost.destroy();
        await until(async () => (await connectionsOf(app.app)) === 0);
      }
      const next = app.post('file', 'next');
      await until(() => run.executions === 3);
      gate.open();
      expect(await next.sent).toMatchObject(whole(3));
      for (const [index, key] of ['putting', 'waiting'].entries()) {
        expect(await app.send('writes', key)).toMatchObject({
          ...whole(index + 1),
          isReplayed: true,
        });
      }
      expect(run.executions).toBe(3);
    });

    it('one whose source fails while it waits lets the next one have its turn', async () => {
      const { blobs: held, gate, arrived } = gated();
      const { store, counts } = counted(held);
      const app = await crowded(store);
      const first = app.post('file', 'first');
      await arrived.pass();
      run.form = { failsAfter: 140_000 };
      const failing = app.post('file', 'failing').sent.catch(() => undefined);
      await endOf(app, 1);
      await failing;
      run.form = {};
      expect(waits(app)).toMatchObject({ given_up: { count: 1 } });
      const next = app.post('file', 'next');
      await until(() => run.executions === 3);
      expect(counts.begun).toBe(1);
      gate.open();
      expect(await first.sent).toMatchObject(whole(1));
      expect(await next.sent).toMatchObject(whole(3));
      expect(counts.begun).toBe(2);
    });
  },
);
