import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { RecordKey } from 'nestjs-idempotency/store';
import {
  LocalAttempts,
  type KeptAttempt,
  type OperationRequest,
} from '../../../support/internals/core.js';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import { protocolOptions } from '../../../support/engine/protocol-options.js';

const LEASE_MS = 200;
const MAX_EXECUTION_MS = 1_000;
const KEYS = ['one', 'other'] as RecordKey[];
const FENCES = [1, 2, 3];

const options = protocolOptions({
  lease: { duration: LEASE_MS, maxExecution: MAX_EXECUTION_MS },
});

function requestOf(recordKey: RecordKey): OperationRequest {
  return { recordKey, options } as OperationRequest;
}

/** What has been done, as a plain list. */
interface Known {
  readonly recordKey: RecordKey;
  readonly at: number;
  /** Of an attempt; a begin has none. */
  readonly fence: number | undefined;
  /** It counts for its key. */
  isListed: boolean;
  /** It has not ended. */
  isRunning: boolean;
  isSettling: boolean;
}

class Model {
  readonly known: Known[] = [];

  constructor(private readonly clock: StandingClock) {}

  add(recordKey: RecordKey, fence?: number): Known {
    const added = { recordKey, fence, at: this.clock.now() };
    const one = { ...added, isListed: true, isRunning: fence !== undefined, isSettling: false };
    this.known.push(one);
    return one;
  }

  has(recordKey: RecordKey, hasRecovery: boolean): boolean {
    return this.ofKey(recordKey, hasRecovery).length > 0;
  }

  mayOwn(recordKey: RecordKey, hasRecovery: boolean, fence: number): boolean {
    return this.ofKey(recordKey, hasRecovery).some((one) =>
      one.fence === undefined ? this.clock.now() >= one.at + LEASE_MS / 2 : one.fence >= fence,
    );
  }

  get running(): number {
    return this.known.filter(({ isRunning }) => isRunning).length;
  }

  private ofKey(recordKey: RecordKey, hasRecovery: boolean): Known[] {
    const now = this.clock.now();
    return this.known.filter(
      (one) =>
        one.recordKey === recordKey &&
        one.isListed &&
        now < one.at + MAX_EXECUTION_MS &&
        !(hasRecovery && one.isSettling),
    );
  }
}

/** The begins and attempts of one process, beside the model of them. */
class Pair {
  readonly clock = new StandingClock();
  readonly attempts = new LocalAttempts({ shutdownTimeout: 0 }, this.clock);
  readonly model = new Model(this.clock);
  private readonly begins: [ReturnType<LocalAttempts['sent']>, Known][] = [];
  private readonly kept: [KeptAttempt, Known][] = [];

  sent(recordKey: RecordKey): void {
    const begun = this.attempts.sent(requestOf(recordKey), this.clock.now());
    this.begins.push([begun, this.model.add(recordKey)]);
  }

  replied(index: number): void {
    const [begun, known] = this.begins[index % this.begins.length] ?? [];
    if (begun === undefined) return;
    this.attempts.remove(begun);
    known!.isListed = false;
  }

  keep(recordKey: RecordKey, fencingToken: number): void {
    const attempt = { request: requestOf(recordKey), fencingToken } as KeptAttempt;
    this.attempts.keep(attempt, this.clock.now());
    this.kept.push([attempt, this.model.add(recordKey, fencingToken)]);
  }

  signal(what: 'settling' | 'lost' | 'ended', index: number): void {
    const [attempt, known] = this.kept[index % this.kept.length] ?? [];
    if (attempt === undefined || known === undefined) return;
    this.attempts[what](attempt);
    if (what === 'settling') known.isSettling ||= known.isRunning;
    else known.isListed = false;
    if (what === 'ended') known.isRunning = false;
  }

  /** What each of the two finds for every key, with every fencing token. */
  results(): Record<'found' | 'expected', boolean[]> {
    const { attempts, model } = this;
    const asked = KEYS.flatMap((key) =>
      [false, true].map((hasRecovery) => [key, hasRecovery] as const),
    );
    const of = (one: Pick<LocalAttempts, 'has' | 'mayOwn'>) =>
      asked.flatMap(([key, hasRecovery]) => [
        one.has(key, hasRecovery, this.clock.now()),
        ...FENCES.map((fence) => one.mayOwn(key, hasRecovery, fence)),
      ]);
    return { found: of(attempts), expected: of(model) };
  }
}

describe('the begins and attempts of a process', () => {
  const orders = [0, 1, 2].flatMap((first) =>
    [0, 1, 2].flatMap((second) =>
      first === second ? [] : [[first, second, 3 - first - second] as const],
    ),
  );

  it.each(orders)(
    'are three of a key, of which each is found until it ends: %i, %i, %i',
    (...order) => {
      const pair = new Pair();
      for (const fence of FENCES) pair.keep(KEYS[0]!, fence);
      for (const index of order) {
        pair.signal('ended', index);
        const { found, expected } = pair.results();
        expect(found).toEqual(expected);
      }
      expect([...pair.attempts.all()]).toEqual([]);
    },
  );

  const key = fc.constantFrom(...KEYS);
  const index = fc.nat(20);
  const step: fc.Arbitrary<(pair: Pair) => void> = fc.oneof(
    key.map((name) => (pair: Pair) => pair.sent(name)),
    index.map((at) => (pair: Pair) => pair.replied(at)),
    fc.tuple(key, fc.constantFrom(...FENCES)).map(
      ([name, fence]) =>
        (pair: Pair) =>
          pair.keep(name, fence),
    ),
    fc.tuple(fc.constantFrom('settling', 'lost', 'ended'), index).map(
      ([what, at]) =>
        (pair: Pair) =>
          pair.signal(what, at),
    ),
    fc.constantFrom(1, 60, 400).map((ms) => (pair: Pair) => {
      pair.clock.block(ms);
    }),
  );

  it('are found by key and fencing token until they end, in whatever order they do', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const pair = new Pair();
        for (const next of steps) {
          next(pair);
          const { found, expected } = pair.results();
          expect(found).toEqual(expected);
        }
        const { running } = pair.model;
        const drained = pair.attempts.drain();
        await pair.clock.advance(100);
        expect(await drained).toBe(running);
      }),
      { numRuns: 500 },
    );
  });
});
