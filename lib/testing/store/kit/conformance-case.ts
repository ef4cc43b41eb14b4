import type { SteppableClock, StoreHarness } from './store-harness.js';
import { TestRecord } from './test-record.js';

/** One sentence about the behaviour of a store, and the proof of it. */
export interface StoreConformanceCase {
  readonly operation: StoreOperation;
  readonly name: string;
  /** Whether the case drives the store's clock, and so cannot run without a {@link SteppableClock}. */
  readonly needsClock: boolean;
  /** @throws `AssertionError` of node:assert when the store does not conform. */
  run(harness: StoreHarness): Promise<void>;
}

/** What a case is about: an operation of the store, the bytes that it keeps, or its opening and closing. */
export type StoreOperation =
  'begin' | 'extend' | 'complete' | 'release' | 'inspect' | 'abandoned' | 'outcome' | 'open';

type Proof = (record: TestRecord) => Promise<void>;
type TimedProof = (record: TestRecord, clock: SteppableClock) => Promise<void>;

export interface CaseWriter {
  /** A case that holds at whatever pace the store's clock runs. */
  (name: string, proof: Proof): void;
  /** A case that drives the store's clock. */
  timed(name: string, proof: TimedProof): void;
}

/** Collects the cases of one operation. */
export function casesOf(
  operation: StoreOperation,
  write: (it: CaseWriter) => void,
): readonly StoreConformanceCase[] {
  const cases: StoreConformanceCase[] = [];
  const untimed = (name: string, proof: Proof) => {
    const run = (harness: StoreHarness) => proof(new TestRecord(harness));
    cases.push({ operation, name, needsClock: false, run });
  };
  const timed = (name: string, proof: TimedProof) => {
    const run = (harness: StoreHarness) => {
      const { clock } = harness;
      if (clock === undefined) throw new TypeError(`This case needs a steppable clock: ${name}`);
      return proof(new TestRecord(harness), clock);
    };
    cases.push({ operation, name, needsClock: true, run });
  };
  write(Object.assign(untimed, { timed }));
  return cases;
}
