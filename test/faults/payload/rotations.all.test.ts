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

const KEYS = isTestAll ? 600 : 100;
const KEYS_IN_WRONG_ORDER = isTestAll ? 200 : 60;
const BEFORE_ITS_KEY = [...NOTHING_TOLERATED.otherResponses, ...WITHOUT_ITS_KEY];
/** Longer than anything in here takes: a key that waits for its lease is detected. */
const LEASE = { duration: 120_000 };
/** So that duplicates arrive before the outcome. */
const EFFECT_DELAY_MS = 10;

interface StepSettings extends Pick<StartOptions, 'secrets'> {
  readonly encryption?: boolean;
}

type Steps<Name extends string> = Readonly<Record<Name, StepSettings>>;

const NEW_AND_OLD = ['old', 'new'];

/** Encryption is turned on, and then its key rotates: a process of each step. */
const STEPS = {
  'without keys': {},
  reader: { secrets: { current: 'old', known: ['old'] }, encryption: false },
  writer: { secrets: { current: 'old', known: ['old'] } },
  'reader of the new key': { secrets: { current: 'old', known: NEW_AND_OLD } },
  'writer of the new key': { secrets: { current: 'new', known: NEW_AND_OLD } },
} satisfies Steps<string>;

type Step = keyof typeof STEPS;

const ORDER = Object.keys(STEPS) as Step[];

/** Who lacks the key of what a process of a step writes. */
const UNREADABLE_TO: Readonly<Record<Step, readonly Step[]>> = {
  'without keys': [],
  reader: [],
  writer: ['without keys'],
  'reader of the new key': ['without keys'],
  'writer of the new key': ['without keys', 'reader', 'writer'],
};

const named = (...digestKeys: string[]): StepSettings => ({
  secrets: { current: 'old', known: ['old', 'names', 'next-names'], digestKeys },
});

/** Digests become protected, and then their key rotates; what has an older name is looked up to the end. */
const DIGEST_STEPS = {
  'by SHA-256': { secrets: { current: 'old', known: ['old'] } },
  'reader of names': named('none', 'names'),
  'writer of names': named('names', 'none'),
  'reader of new names': named('names', 'none', 'next-names'),
  'writer of new names': named('next-names', 'names', 'none'),
  'without the step before': named('names'),
} satisfies Steps<string>;

type DigestStep = keyof typeof DIGEST_STEPS;

const DIGEST_ORDER = (Object.keys(DIGEST_STEPS) as DigestStep[]).slice(0, -1);

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

/** A process of each step, on one store. */
class Fleets<Name extends string> {
  readonly workers = new Map<Name, LabWorker>();

  private constructor(
    readonly lab: Lab,
    private readonly place: Place,
  ) {}

  static async of<Name extends string>(placed: () => Promise<Place>, steps: Steps<Name>) {
    const [place, lab] = await Promise.all([placed(), Lab.set()]);
    const fleets = new Fleets<Name>(lab, place);
    const entries = Object.entries(steps) as [Name, StepSettings][];
    try {
      await Promise.all(
        entries.map(async ([step, settings], index) => {
          fleets.workers.set(step, await fleets.start(settings, index));
        }),
      );
    } catch (error) {
      await fleets.clear();
      throw error;
    }
    return fleets;
  }

  private start({ secrets, encryption }: StepSettings, index: number): Promise<LabWorker> {
    const { lab, place } = this;
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

  worker(step: Name): LabWorker {
    return this.workers.get(step)!;
  }

  effects = async () => (await this.place.effects?.()) ?? this.lab.effects();

  verdict = async (allowed: Expectations, stuck: readonly string[]) =>
    judge({ ...this.lab.evidence(stuck), ledger: await this.effects() }, allowed);

  /** By the step of the process that executed it. */
  async keysOf(steps: readonly Name[]): Promise<string[]> {
    const names = new Set(steps.map((step) => this.worker(step).name));
    return (await this.effects()).filter(({ worker }) => names.has(worker)).map(({ key }) => key);
  }

  /**
   * The processes replace one another under load: two serve at a time; the earlier one has left before the one after the
   * later enters.
   */
  async rotate(order: readonly Name[], keys: readonly string[]) {
    const fleet = new Fleet(this.lab.client);
    const share = (keys.length * DUPLICATES) / order.length;
    const replaced = async () => {
      for (const [index, step] of order.entries()) {
        fleet.enter(this.worker(step));
        await fleet.answered.reached(share * index);
        const before = order[index - 1];
        if (before !== undefined) await fleet.leave(this.worker(before));
      }
    };
    const [, stuck] = await Promise.all([replaced(), fleet.load(keys)]);
    return stuck;
  }

  async clear(): Promise<void> {
    await this.lab.clear();
    await this.place.leave?.();
  }
}

const keysNamed = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${name}-${index}`);

// The second takes as long again, and differs in how outcomes reach the store alone.
describe.each(isTestAll ? PLACES : PLACES.slice(0, 1))('Processes %s', (_, placed) => {
  let fleets: Fleets<Step>;
  let lab: Lab;
  const workers = (step: Step) => fleets.worker(step);

  beforeAll(async () => {
    fleets = await Fleets.of<Step>(placed, STEPS);
    ({ lab } = fleets);
  }, 120_000);

  afterAll(() => fleets.clear());

  const reports = () =>
    lab.events().filter(({ type }) => type === 'outcome_unreadable' || type === 'pack_failed');

  it(`turn encryption on and rotate its key, readers first: ${KEYS} keys run once, and all ${DUPLICATES} duplicates get their outcome`, async () => {
    const stuck = await fleets.rotate(ORDER, keysNamed('rotated', KEYS));

    const { objections, figures } = await fleets.verdict(NOTHING_TOLERATED, stuck);
    expect(objections).toEqual([]);
    expect(figures).toMatchObject({ keys: KEYS, executions: KEYS });
    expect(figures.responses).toMatchObject({ '201': KEYS, '201 replay': KEYS * (DUPLICATES - 1) });
    expect(reports()).toEqual([]);
    for (const step of ORDER) {
      expect((await fleets.keysOf([step])).length).toBeGreaterThan(KEYS / 50);
    }
  }, 120_000);

  it.each(ORDER)('read what they have the key of, and nothing else: %s', async (step) => {
    const unreadable = ORDER.filter((other) => UNREADABLE_TO[other].includes(step));
    const expected = new Set(await fleets.keysOf(unreadable));
    const replays = await Promise.all(
      (await fleets.effects()).map(({ key }) => lab.client.send(workers(step).url, key)),
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
      fleet.enter(workers(late));
      fleet.enter(workers(writer));
      const before = reports().length;
      const keys = keysNamed(what.replaceAll(' ', '-'), KEYS_IN_WRONG_ORDER);
      const stuck = await fleet.load(keys);

      const { objections } = await fleets.verdict(
        { ...NOTHING_TOLERATED, outages: true, otherResponses: BEFORE_ITS_KEY },
        stuck,
      );
      expect(objections).toEqual([]);
      const own = (await fleets.effects()).filter(({ key }) => keys.includes(key));
      expect(own).toHaveLength(keys.length);
      const sealed = new Set(await fleets.keysOf([writer]));
      expect(fleet.refusals.length).toBeGreaterThan(KEYS_IN_WRONG_ORDER / 10);
      for (const { url, key } of fleet.refusals) {
        expect([url, sealed.has(key)]).toEqual([workers(late).url, true]);
      }
      expect(reports().slice(before)).toContainEqual(
        expect.objectContaining({ worker: workers(late).name, reason: 'key' }),
      );
    },
    120_000,
  );
});

// In transactions a process looks up a record that another one has locked, too.
describe.each(isTestAll ? PLACES : PLACES.slice(1))(
  'Processes whose digests become protected, %s',
  (_, placed) => {
    let fleets: Fleets<DigestStep>;

    beforeAll(async () => {
      fleets = await Fleets.of<DigestStep>(placed, DIGEST_STEPS);
    }, 120_000);

    afterAll(() => fleets.clear());

    it(`from none, and then by another key, readers first: ${KEYS} keys run once, and all ${DUPLICATES} duplicates get their outcome`, async () => {
      const stuck = await fleets.rotate(DIGEST_ORDER, keysNamed('renamed', KEYS));

      const { objections, figures } = await fleets.verdict(NOTHING_TOLERATED, stuck);
      expect(objections).toEqual([]);
      expect(figures).toMatchObject({ keys: KEYS, executions: KEYS });
      expect(figures.responses).toMatchObject({
        '201': KEYS,
        '201 replay': KEYS * (DUPLICATES - 1),
      });
      // Processes of each order have won.
      for (const steps of [
        ['reader of names', 'reader of new names'],
        ['writer of names', 'writer of new names'],
      ] as const) {
        expect((await fleets.keysOf(steps)).length).toBeGreaterThan(KEYS / 50);
      }
    }, 120_000);

    it('replay what any step before has stored, whatever its name', async () => {
      const { url } = fleets.worker('writer of new names');
      const { client } = fleets.lab;
      const keys = (await fleets.effects()).map(({ key }) => key);
      const replays = await Promise.all(keys.map((key) => client.send(url, key)));
      expect(replays.filter(({ status, replayed }) => status !== 201 || !replayed)).toEqual([]);
    });

    it('run twice what they have no name of: without the step of readers', async () => {
      const keys = keysNamed('unnamed', 10);
      const { client } = fleets.lab;
      for (const step of ['by SHA-256', 'without the step before'] as const) {
        await Promise.all(keys.map((key) => client.send(fleets.worker(step).url, key)));
      }
      const { objections } = await fleets.verdict(NOTHING_TOLERATED, []);
      expect(objections).not.toEqual([]);
      const twice = (await fleets.effects()).filter(({ key }) => keys.includes(key));
      expect(twice).toHaveLength(2 * keys.length);
    });
  },
);
