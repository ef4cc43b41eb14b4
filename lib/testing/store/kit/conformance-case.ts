import type { SteppableClock, StoreHarness } from './store-harness.js';
import { TestRecord } from './test-record.js';

/** One statement about the behaviour of a store, and its proof. */
export interface StoreConformanceCase {
  readonly operation: StoreOperation;
  readonly name: string;
  /** Whether the case drives the store's clock and needs a {@link SteppableClock}. */
  readonly needsClock: boolean;
  /** @throws `AssertionError` of node:assert if the store does not conform. */
  run(harness: StoreHarness): Promise<void>;
}

/** The subject of a case: an operation of the store, the stored bytes, or opening and closing. */
export type StoreOperation =
  | 'begin'
  | 'extend'
  | 'complete'
  | 'release'
  | 'inspect'
  | 'abandoned'
  | 'list'
  | 'amend'
  | 'outcome'
  | 'open';

type Proof = (record: TestRecord) => Promise<void>;
type TimedProof = (record: TestRecord, clock: SteppableClock) => Promise<void>;

export interface CaseWriter {
  /** A case that holds whatever the speed of the store's clock. */
  (name: string, proof: Proof): void;
  /** A case that drives the store's clock. */
  timed(name: string, proof: TimedProof): void;
}

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
