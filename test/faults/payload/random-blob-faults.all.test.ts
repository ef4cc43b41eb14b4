import { hash, randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { recordKeyOf } from '../../../lab/faults/extra-executions.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { isSuccess, type ApiResponse } from '../../../lab/faults/response.js';
import type { Fault, SeenRequest } from '../../integration/blobs/support/s3-server.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { s3Place, type S3Place } from './support/blob-places.js';
import { ABOVE, isWhole, keysWithOtherBytes, WITHOUT_BODY } from './support/large-bodies.js';

/** Of both forms together. */
const KEYS = isTestAll ? 2_000 : 100;
const BYTES = 100_000;
/** How many requests are sent for a key while there are faults: the first two at once. */
const DUPLICATES = 5;
const CLIENTS = 16;
const TIMEOUT_MS = 2_000;

/** With RANDOM_SEED, the n-th request for a key's blob meets the same fault again. */
const SEED = Number(process.env.RANDOM_SEED ?? randomInt(2 ** 31));

const FORMS = [
  ['in clear', {}],
  ['encrypted', { secrets: { current: 'k1', known: ['k1'] } }],
] as const;

/** What another client has stored, as a server that mixes up its objects would return it. */
let earlier: Buffer = Buffer.alloc(BYTES);
const exchanged = (bytes: Buffer) => {
  const other = earlier;
  earlier = bytes;
  return other.equals(bytes) ? bytes.subarray(1) : other;
};
const flipped = (bytes: Buffer) => {
  const changed = Buffer.from(bytes);
  changed[hash('sha256', bytes, 'buffer').readUInt32BE() % bytes.length]! ^= 0x10;
  return changed;
};

type Share = readonly [percent: number, fault: Fault];

const AT_PUT: readonly Share[] = [
  [8, 'cut'],
  [8, 'cut the request'],
  [8, 'lose the answer'],
  [8, { status: 503, code: 'SlowDown' }],
  [2, 'stall'],
];
const AT_GET: readonly Share[] = [
  [6, { status: 404, code: 'NoSuchKey' }],
  [6, { status: 500, code: 'InternalError' }],
  [6, 'cut'],
  [6, 'cut the answer'],
  [6, { changed: (bytes) => bytes.subarray(0, bytes.length / 2) }],
  [6, { changed: () => Buffer.alloc(0) }],
  [6, { changed: exchanged }],
  [6, { changed: flipped }],
  [2, 'stall'],
  [2, 'stall the answer'],
];

/** By seed, key and number alone: the order in which requests of different keys arrive does not count. */
function chosen(method: string, recordKey: string, number: number): Fault {
  const drawn = hash('sha256', `${SEED} ${method} ${recordKey} ${number}`, 'buffer');
  let percent = drawn.readUInt32BE() % 100;
  for (const [share, fault] of method === 'PUT' ? AT_PUT : AT_GET) {
    if (percent < share) return fault;
    percent -= share;
  }
  return 'none';
}

/** Of a blob's path: `/outcomes/idem/d1/{record key}/{token}`. */
function recordKeyIn(url: string): string {
  return url.split('/')[4] ?? '';
}

describe.each(FORMS)(
  `Bodies %s, with faults of the blob store by RANDOM_SEED=${SEED}`,
  (form, options) => {
    let s3: S3Place;
    let lab: Lab;
    let workers: readonly LabWorker[];
    const keys = Array.from(
      { length: KEYS / FORMS.length },
      (_, at) => `${form.replace(' ', '-')}-${at}`,
    );

    beforeAll(async () => {
      [s3, lab] = await Promise.all([s3Place(), Lab.set()]);
      const { url } = await sharedServer('redis');
      const start = () =>
        lab.start(
          { kind: 'redis', url },
          {
            ...options,
            blobs: s3.settings,
            options: {
              lease: { duration: 120_000 },
              duplicates: 'wait',
              outcome: {
                offload: { aboveBytes: ABOVE, putTimeout: TIMEOUT_MS, getTimeout: TIMEOUT_MS },
              },
            },
          },
        );
      workers = await Promise.all([start(), start()]);
    }, 120_000);

    afterAll(async () => {
      await lab.clear();
      await s3.stop();
    });

    const send = (key: string, turn: number) =>
      lab.client.send(workers[turn % workers.length]!.url, key, { body: { bytes: BYTES } });

    async function forEachKey(work: (key: string) => Promise<unknown>): Promise<void> {
      const left = keys.values();
      await Promise.all(
        Array.from({ length: CLIENTS }, async () => {
          for (const key of left) await work(key);
        }),
      );
    }

    it(`${keys.length} keys run once each, whatever it does, and no client gets other bytes than those of its execution`, async () => {
      const counts = new Map<string, number>();
      const seen = new Map<Fault, number>();
      s3.gateway.follow(({ method, url }: SeenRequest) => {
        const name = `${method} ${recordKeyIn(url)}`;
        const number = counts.get(name) ?? 0;
        counts.set(name, number + 1);
        const fault = chosen(method, recordKeyIn(url), number);
        seen.set(fault, (seen.get(fault) ?? 0) + 1);
        return fault;
      });
      await forEachKey(async (key) => {
        await Promise.all([send(key, 0), send(key, 1)]);
        for (let turn = 2; turn < DUPLICATES; turn += 1) await send(key, turn);
      });
      s3.recover();
      const last = new Map<string, ApiResponse>();
      await forEachKey(async (key) => last.set(key, await send(key, 0)));

      const { objections, figures } = lab.judge(WITHOUT_BODY);
      expect(objections).toEqual([]);
      expect(figures).toMatchObject({ keys: keys.length, executions: keys.length });
      expect(keysWithOtherBytes(lab, BYTES)).toEqual([]);
      // What was stored is there still, and what was not is known to be done.
      const puts = new Map(keys.map((key) => [key, chosen('PUT', recordKeyOf(key), 0)]));
      for (const [key, response] of last) {
        if (isSuccess(response)) expect([key, isWhole(response, BYTES)]).toEqual([key, true]);
        else
          expect(response).toMatchObject({
            key,
            status: 409,
            code: 'idempotency_response_not_kept',
          });
        if (puts.get(key) === 'none') expect([key, response.status]).toEqual([key, 201]);
      }
      // Each kind of fault was met, and each kind of answer given.
      for (const [, fault] of [...AT_PUT, ...AT_GET]) {
        if (isTestAll) expect([fault, seen.get(fault) ?? 0]).not.toEqual([fault, 0]);
      }
      const { responses } = figures;
      expect(responses['201 replay']).toBeGreaterThan(keys.length);
      expect(responses['409 idempotency_response_not_kept']).toBeGreaterThan(keys.length / 10);
      expect(responses['503 idempotency_outcome_unavailable']).toBeGreaterThan(keys.length / 10);
      expect(
        responses['500 idempotency_outcome_unreadable'] ?? responses.ECONNRESET,
      ).toBeGreaterThan(keys.length / 10);
    }, 120_000);
  },
);
