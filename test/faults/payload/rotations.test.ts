import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate } from 'nestjs-idempotency/postgres';
import { createEffectsTable, readEffects } from '../../../lab/faults/effects-table.js';
import {
  NOTHING_TOLERATED,
  WITHOUT_ITS_KEY,
  type Expectations,
} from '../../../lab/faults/expectations.js';
import { Lab, type StartOptions } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { judge } from '../../../lab/faults/oracle.js';
import type { Effect } from '../../../lab/faults/worker/lines.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { openPostgresPool } from '../../support/postgres/postgres-pool.js';
import { sharedDatabase } from '../../support/postgres/use-postgres.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';
import { DUPLICATES, Fleet } from './fleet.js';

const KEYS = isTestAll ? 600 : 150;
const KEYS_IN_WRONG_ORDER = isTestAll ? 200 : 60;
const BEFORE_ITS_KEY = [...NOTHING_TOLERATED.otherResponses, ...WITHOUT_ITS_KEY];
/** Longer than anything in here takes: a key that waits for its lease is detected. */
const LEASE = { duration: 120_000 };
/** So that duplicates arrive before the outcome. */
const EFFECT_DELAY_MS = 10;

type Step =
  'without keys' | 'reader' | 'writer' | 'reader of the new key' | 'writer of the new key';

interface StepSettings extends Pick<StartOptions, 'secrets'> {
  readonly encryption?: boolean;
  /** Who lacks the key of what a process of this step writes. */
  readonly unreadableTo: readonly Step[];
}

const NEW_AND_OLD = ['old', 'new'];

/** Encryption is turned on, and then its key rotates: a process of each step. */
const STEPS: Readonly<Record<Step, StepSettings>> = {
  'without keys': { unreadableTo: [] },
  reader: { secrets: { current: 'old', known: ['old'] }, encryption: false, unreadableTo: [] },
  writer: { secrets: { current: 'old', known: ['old'] }, unreadableTo: ['without keys'] },
  'reader of the new key': {
    secrets: { current: 'old', known: NEW_AND_OLD },
    unreadableTo: ['without keys'],
  },
  'writer of the new key': {
    secrets: { current: 'new', known: NEW_AND_OLD },
    unreadableTo: ['without keys', 'reader', 'writer'],
  },
};

const ORDER = Object.keys(STEPS) as Step[];

interface Place {
  readonly store: StoreSettings;
  readonly transactional?: boolean;
  /** Where effects are, if not in the lab's file. */
  readonly effects?: () => Promise<Effect[]>;
  readonly leave?: () => Promise<void>;
}

const onRedis = async (): Promise<Place> => ({
  store: { kind: 'redis', url: (await sharedServer('redis')).url },
});

const inTransactions = async (): Promise<Place> => {
  const url = await sharedDatabase();
  await migrate({ url });
  const pool = openPostgresPool(url);
  await createEffectsTable(pool);
  return {
    store: { kind: 'postgres', url },
    transactional: true,
    effects: () => readEffects(pool),
    leave: () => pool.end(),
  };
};

const PLACES: readonly (readonly [string, () => Promise<Place>])[] = [
  ['on Redis', onRedis],
  ['in transactions of PostgreSQL', inTransactions],
];

// The second takes as long again, and differs in how outcomes reach the store alone.
describe.each(isTestAll ? PLACES : PLACES.slice(0, 1))('Processes %s', (_, placed) => {
  let place: Place;
  let lab: Lab;
  let workers: Readonly<Record<Step, LabWorker>>;

  beforeAll(async () => {
    [place, lab] = await Promise.all([placed(), Lab.set()]);
    const started = ORDER.map(async (step, index) => [step, await start(step, index)] as const);
    workers = Object.fromEntries(await Promise.all(started)) as Record<Step, LabWorker>;
  }, 120_000);

  afterAll(async () => {
    await lab.clear();
    await place.leave?.();
  });

  function start(step: Step, index: number): Promise<LabWorker> {
    const { secrets, encryption } = STEPS[step];
    return lab.start(place.store, {
      ...(secrets && { secrets }),
      ...(place.transactional && { transactional: true }),
      effectDelayMs: EFFECT_DELAY_MS,
      options: {
        lease: LEASE,
        duplicates: index % 2 === 0 ? 'reject' : 'wait',
        ...(encryption !== undefined && { outcome: { encryption } }),
      },
    });
  }

  const effects = async () => (await place.effects?.()) ?? lab.effects();

  const verdict = async (allowed: Expectations, stuck: readonly string[]) =>
    judge({ ...lab.evidence(stuck), ledger: await effects() }, allowed);

  /** By the step of the process that executed it. */
  async function keysOf(steps: readonly Step[]): Promise<string[]> {
    const names = new Set(steps.map((step) => workers[step].name));
    return (await effects()).filter(({ worker }) => names.has(worker)).map(({ key }) => key);
  }

  const reports = () =>
    lab.events().filter(({ type }) => type === 'outcome_unreadable' || type === 'pack_failed');

  it(`turn encryption on and rotate its key, readers first: ${KEYS} keys run once, and all ${DUPLICATES} duplicates get their outcome`, async () => {
    const fleet = new Fleet(lab.client);
    const share = (KEYS * DUPLICATES) / ORDER.length;
    /** Two serve at a time; the earlier one has left before the one after the later enters. */
    const rotate = async () => {
      for (const [index, step] of ORDER.entries()) {
        fleet.enter(workers[step]);
        await fleet.answered.reached(share * index);
        const before = ORDER[index - 1];
        if (before !== undefined) await fleet.leave(workers[before]);
      }
    };
    const keys = Array.from({ length: KEYS }, (_, index) => `rotated-${index}`);
    const [, stuck] = await Promise.all([rotate(), fleet.load(keys)]);

    const { objections, figures } = await verdict(NOTHING_TOLERATED, stuck);
    expect(objections).toEqual([]);
    expect(figures).toMatchObject({ keys: KEYS, executions: KEYS });
    expect(figures.responses).toMatchObject({ '201': KEYS, '201 replay': KEYS * (DUPLICATES - 1) });
    expect(reports()).toEqual([]);
    for (const step of ORDER) {
      expect((await keysOf([step])).length).toBeGreaterThan(KEYS / 20);
    }
  }, 120_000);

  it.each(ORDER)('read what they have the key of, and nothing else: %s', async (step) => {
    const unreadable = ORDER.filter((other) => STEPS[other].unreadableTo.includes(step));
    const expected = new Set(await keysOf(unreadable));
    const replays = await Promise.all(
      (await effects()).map(({ key }) => lab.client.send(workers[step].url, key)),
    );
    for (const { key, ...response } of replays) {
      expect(response).toMatchObject(
        expected.has(key)
          ? { status: 503, code: 'idempotency_outcome_unavailable', retryAfter: 1 }
          : { status: 201, replayed: true },
      );
    }
  });

  it.each([
    ['encryption is turned on', 'without keys', 'writer'],
    ['the key rotates', 'writer', 'writer of the new key'],
  ] as const)(
    '%s before each process can read it: those that cannot say 503, and run nothing again',
    async (what, late, writer) => {
      const fleet = new Fleet(lab.client);
      fleet.enter(workers[late]);
      fleet.enter(workers[writer]);
      const before = reports().length;
      const keys = Array.from(
        { length: KEYS_IN_WRONG_ORDER },
        (_, index) => `${what.replaceAll(' ', '-')}-${index}`,
      );
      const stuck = await fleet.load(keys);

      const { objections } = await verdict(
        { ...NOTHING_TOLERATED, outages: true, otherResponses: BEFORE_ITS_KEY },
        stuck,
      );
      expect(objections).toEqual([]);
      const own = (await effects()).filter(({ key }) => keys.includes(key));
      expect(own).toHaveLength(keys.length);
      const sealed = new Set(await keysOf([writer]));
      expect(fleet.refusals.length).toBeGreaterThan(KEYS_IN_WRONG_ORDER / 10);
      for (const { url, key } of fleet.refusals) {
        expect([url, sealed.has(key)]).toEqual([workers[late].url, true]);
      }
      expect(reports().slice(before)).toContainEqual(
        expect.objectContaining({ worker: workers[late].name, reason: 'key' }),
      );
    },
    120_000,
  );
});
