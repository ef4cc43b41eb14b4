import assert from 'node:assert/strict';
import { describe, expect, it } from '@jest/globals';
import type {
  Abandoned,
  AbandonedPage,
  AbandonedRecord,
  Begin,
  Complete,
  Extend,
  IdempotencyStore,
  Release,
  StoreObserver,
} from '../../lib/core/idempotency-store.js';
import { StoreUnavailableError } from '../../lib/core/errors.js';
import type { Fingerprint, Lease, Outcome, OwnerToken } from '../../lib/core/record.js';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';
import { storeConformanceCases } from 'nestjs-idempotency/testing/store';

type Clock = () => number;

/** What is wrong with each of them stands in its name. */
const BROKEN: Record<string, (now: Clock) => IdempotencyStore> = {
  'does not compare the fence': altered({ lease: (lease) => ({ ...lease, fence: 0 }) }),
  'does not compare the owner token': altered({
    lease: (lease) => ({ ...lease, token: 'all' as OwnerToken }),
    begin: (begin) => ({ ...begin, token: 'all' as OwnerToken }),
  }),
  'knows no attempt whose fence is unknown': altered({
    lease: (lease) => (lease.fence === 0 ? { ...lease, fence: 1 } : lease),
  }),
  'does not compare fingerprints': altered({
    begin: (begin) => ({ ...begin, fingerprint: '-' as Fingerprint }),
  }),
  'does not compare fingerprints at the end': comparing((_late, began) => began),
  'never finds fingerprints equal at the end': comparing(() => 'none' as Fingerprint),
  'takes over under deny': altered({
    begin: (begin) => ({ ...begin, onExpiredLease: 'takeover' }),
  }),
  'never takes over': altered({ begin: (begin) => ({ ...begin, onExpiredLease: 'deny' }) }),
  'acquires after notAfter': altered({ begin: (begin) => ({ ...begin, notAfter: 0 }) }),
  'is late one millisecond too early': altered({
    begin: (begin) => ({ ...begin, notAfter: Math.max(0, begin.notAfter - 1) }),
  }),
  'gives a lease of its own length': altered({ begin: (begin) => ({ ...begin, leaseMs: 10_001 }) }),
  'knows no hard deadline': altered({ begin: (begin) => ({ ...begin, maxExecutionMs: 1e9 }) }),
  'forgets a record in progress early': altered({
    begin: (begin) => ({ ...begin, recordRetentionMs: begin.leaseMs }),
  }),
  'forgets where a record comes from': altered({
    begin: (begin) => ({ ...begin, origin: undefined }),
  }),
  'does not prolong the record with its lease': altered({
    extend: (extend) => ({ ...extend, recordRetentionMs: extend.leaseMs }),
  }),
  'keeps every success as a failure': altered({
    complete: (complete) => ({ ...complete, state: 'failed' }),
  }),
  'restores nothing': altered({ complete: (complete) => ({ ...complete, whenGone: 'report' }) }),
  'restores failures, too': altered({
    complete: (complete) =>
      complete.whenGone === 'restore' ? { ...complete, state: 'completed' } : complete,
  }),
  'restores whatever is gone': altered({
    complete: (complete) => ({ ...complete, whenGone: 'restore' }),
  }),
  'keeps an outcome for a millisecond longer': altered({
    complete: (complete) => ({ ...complete, retentionMs: complete.retentionMs + 1 }),
  }),
  'keeps no tombstone': altered({ release: (release) => ({ ...release, tombstoneMs: 0 }) }),
  'decodes bodies as UTF-8': altered({
    complete: withOutcome(({ header, body }) => ({
      header,
      body: Buffer.from(Buffer.from(body).toString()),
    })),
  }),
  'cuts bodies at a megabyte': altered({
    complete: withOutcome(({ header, body }) => ({ header, body: body.slice(0, 2 ** 20) })),
  }),
  'writes headers in latin1': altered({
    complete: withOutcome(({ header, body }) => ({
      header: Buffer.from(header, 'latin1').toString('latin1'),
      body,
    })),
  }),
  'trims headers': altered({
    complete: withOutcome(({ header, body }) => ({ header: header.trim(), body })),
  }),
  'lists what was abandoned a millisecond too early': listing({
    command: (command) => ({ ...command, overMs: Math.max(0, command.overMs - 1) }),
  }),
  'lists the first page and no other': listing({
    page: ({ records }) => ({ records }),
  }),
  'lists nothing until a clock that stepped back has caught up': (now) => {
    class WaitingStore extends MemoryIdempotencyStore {
      private latest = now();
      override async abandoned(command: Abandoned) {
        return this.isBehind() ? { records: [] } : super.abandoned(command);
      }
      override begin(command: Begin) {
        this.isBehind();
        return super.begin(command);
      }
      private isBehind(): boolean {
        this.latest = Math.max(this.latest, now());
        return now() < this.latest;
      }
    }
    return new WaitingStore({ now });
  },
  'lists nothing that was abandoned': listing({ page: () => ({ records: [] }) }),
  'mixes up where abandoned records come from': listing({
    record: (record) => ({ ...record, origin: 'bWl4ZWQtdXA' }),
  }),
  'mixes up the fingerprints of abandoned records': listing({
    record: (record) => ({ ...record, fingerprint: '-' as Fingerprint }),
  }),
  'is closed for good': closing(() => true, false),
  'is closed by the first application that ends': closing(() => true),
  'is closed by an application that never opened it': closing((isKnown) => !isKnown),
  'believes a clock that stood still': () => memoryStore({ now: () => 1_000_000 }),
  'counts in seconds': (now) => memoryStore({ now: () => Math.floor(now() / 1000) * 1000 }),
};

describe('the conformance kit refuses a store that', () => {
  it.each(Object.entries(BROKEN))('%s', async (_name, create) => {
    expect(await refutations(create)).not.toEqual([]);
  });

  it('does nothing wrong, in no case', async () => {
    expect(await refutations((now) => memoryStore({ now }))).toEqual([]);
  });
});

describe('the conformance kit', () => {
  it('has at least sixty cases, and no two of one name', () => {
    const names = storeConformanceCases.map(({ operation, name }) => `${operation} ${name}`);
    expect(names.length).toBeGreaterThanOrEqual(60);
    expect(new Set(names).size).toBe(names.length);
  });

  it('has nothing against a store that does not list abandoned records', async () => {
    class WithoutList extends MemoryIdempotencyStore {
      override abandoned() {
        return Promise.resolve(undefined as never);
      }
    }
    expect(await refutations((now) => new WithoutList({ now }))).toEqual([]);
  });

  it('does not run a case that needs a clock without one', () => {
    const timed = storeConformanceCases.find(({ needsClock }) => needsClock)!;
    expect(() => timed.run({ store: memoryStore() })).toThrow('needs a steppable clock');
  });
});

/** The names of the cases that a store fails. */
async function refutations(create: (now: Clock) => IdempotencyStore): Promise<string[]> {
  const failed: string[] = [];
  for (const each of storeConformanceCases) {
    let now = 1_900_000_000_000;
    const store = create(() => now);
    const clock = { now: () => now, step: (ms: number) => void (now += ms) };
    try {
      await each.run({ store, clock });
    } catch (error) {
      assert.ok(error instanceof assert.AssertionError, `${each.name}: ${String(error)}`);
      failed.push(each.name);
    }
  }
  return failed;
}

interface Alterations {
  readonly lease?: (lease: Lease) => Lease;
  readonly begin?: (command: Begin) => Begin;
  readonly extend?: (command: Extend) => Extend;
  readonly complete?: (command: Complete) => Complete;
  readonly release?: (command: Release) => Release;
}

/** A store that gets its commands wrong, and is right in all else. */
function altered({ lease, begin, extend, complete, release }: Alterations) {
  class AlteredStore extends MemoryIdempotencyStore {
    override begin(command: Begin) {
      return super.begin(begin?.(command) ?? command);
    }
    override extend(of: Lease, command: Extend) {
      return super.extend(lease?.(of) ?? of, extend?.(command) ?? command);
    }
    override complete(of: Lease, command: Complete) {
      return super.complete(lease?.(of) ?? of, complete?.(command) ?? command);
    }
    override release(of: Lease, command: Release) {
      return super.release(lease?.(of) ?? of, release?.(command) ?? command);
    }
  }
  return (now: Clock) => new AlteredStore({ now });
}

/** A store that compares the fingerprint of a late completion with that of the finished record wrongly. */
function comparing(compared: (late: Fingerprint, began: Fingerprint) => Fingerprint) {
  class ComparingStore extends MemoryIdempotencyStore {
    override async complete(of: Lease, command: Complete) {
      const record = await super.inspect(of.recordKey);
      if (record?.outcome === undefined) return super.complete(of, command);
      const fingerprint = compared(command.fingerprint, record.fingerprint);
      return super.complete(of, { ...command, fingerprint });
    }
  }
  return (now: Clock) => new ComparingStore({ now });
}

/** A store that lists abandoned records wrongly. */
function listing({
  command: alter = (command) => command,
  page: alterPage = (page) => page,
  record: alterRecord = (record) => record,
}: {
  readonly command?: (command: Abandoned) => Abandoned;
  readonly page?: (page: AbandonedPage) => AbandonedPage;
  readonly record?: (record: AbandonedRecord) => AbandonedRecord;
}) {
  class ListingStore extends MemoryIdempotencyStore {
    override async abandoned(command: Abandoned) {
      const page = await super.abandoned(alter(command));
      return alterPage({ ...page, records: page.records.map(alterRecord) });
    }
  }
  return (now: Clock) => new ListingStore({ now });
}

/** A store that closes when it must not, or does not open again. */
function closing(closes: (isKnown: boolean) => boolean, opensAgain = true) {
  class ClosingStore extends MemoryIdempotencyStore {
    private readonly known = new Set<unknown>();
    private isClosed = false;
    override open(observer?: StoreObserver) {
      this.known.add(observer);
      this.isClosed &&= !opensAgain;
      return super.open(observer);
    }
    override close(observer?: StoreObserver) {
      this.isClosed ||= closes(this.known.delete(observer));
      return super.close(observer);
    }
    override begin(command: Begin) {
      if (this.isClosed) return Promise.reject(new StoreUnavailableError('closed'));
      return super.begin(command);
    }
  }
  return (now: Clock) => new ClosingStore({ now });
}

function withOutcome(alter: (outcome: Outcome) => Outcome) {
  return (command: Complete): Complete => ({ ...command, outcome: alter(command.outcome) });
}
