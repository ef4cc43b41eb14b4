import { randomUUID } from 'node:crypto';
import {
  type Abandoned,
  type AbandonedPage,
  type AbandonedRecord,
  type Amend,
  type Begin,
  type BeginReply,
  type Complete,
  type Extend,
  type IdempotencyStore,
  type List,
  type Release,
  type StoreObserver,
  StoreUnavailableError,
  type Fingerprint,
  type Lease,
  type Outcome,
  type OwnerToken,
} from '../support/internals/core.js';
import type { PlantedMistake } from '../support/planted/planted-mistake.js';
import { MemoryIdempotencyStore, memoryStore } from 'nestjs-idempotency/memory';

export type Clock = () => number;

interface BrokenStore extends PlantedMistake {
  readonly create: (now: Clock) => IdempotencyStore;
}

/** The first text names the mistake; the second names the case that must reject the store. */
export const BROKEN_STORES: readonly BrokenStore[] = [
  broken(
    'does not compare the fence',
    'replies lost to its own token with another fence',
    altered({ lease: (lease) => ({ ...lease, fence: 0 }) }),
  ),
  broken(
    'does not compare the owner token',
    'acquires for one of a hundred concurrent attempts',
    altered({
      lease: (lease) => ({ ...lease, token: 'all' as OwnerToken }),
      begin: (begin) => ({ ...begin, token: 'all' as OwnerToken }),
    }),
  ),
  broken(
    'rejects an attempt whose fence is unknown',
    'checks only the owner token when the fence is 0',
    altered({
      lease: (lease) => (lease.fence === 0 ? { ...lease, fence: 1 } : lease),
    }),
  ),
  broken(
    'does not compare fingerprints',
    'keeps the fingerprint that the attempt began with',
    altered({
      begin: (begin) => ({ ...begin, fingerprint: '-' as Fingerprint }),
    }),
  ),
  broken(
    'does not compare fingerprints at the end',
    'returns no outcome of another content, but lost with the valid state and fence',
    comparing((_late, began) => began),
  ),
  broken(
    'never finds fingerprints equal at the end',
    'returns a kept failure likewise, and does not replace it by a success',
    comparing(() => 'none' as Fingerprint),
  ),
  broken(
    'takes over under deny',
    'keeps a record in progress until the millisecond before it expires',
    altered({
      begin: (begin) => ({ ...begin, onExpiredLease: 'takeover' }),
    }),
  ),
  broken(
    'never takes over',
    'extends the lease of its owner from the present time',
    altered({ begin: (begin) => ({ ...begin, onExpiredLease: 'deny' }) }),
  ),
  broken(
    'acquires after notAfter',
    'does not acquire after notAfter, and returns the time',
    altered({ begin: (begin) => ({ ...begin, notAfter: 0 }) }),
  ),
  broken(
    'is late one millisecond too early',
    'does not acquire a released record after notAfter',
    altered({
      begin: (begin) => ({ ...begin, notAfter: Math.max(0, begin.notAfter - 1) }),
    }),
  ),
  broken(
    'grants a lease of a length of its own',
    'returns the shortened lease from inspect, which writes nothing',
    altered({ begin: (begin) => ({ ...begin, leaseMs: 10_001 }) }),
  ),
  broken(
    'ignores the hard deadline',
    'sets no lease beyond the hard deadline',
    altered({ begin: (begin) => ({ ...begin, maxExecutionMs: 1e9 }) }),
  ),
  broken(
    'deletes a record in progress early',
    'sets the lease and the retention of the command',
    altered({
      begin: (begin) => ({ ...begin, recordRetentionMs: begin.leaseMs }),
    }),
  ),
  broken(
    'does not store the origin of a record',
    'writes the record with its origin and the fence of the reply',
    altered({
      begin: (begin) => ({ ...begin, origin: undefined }),
    }),
  ),
  broken(
    'does not store the note of a record',
    'returns the note of begin in every state of the record',
    altered({ begin: (begin) => ({ ...begin, note: undefined }) }),
  ),
  broken(
    'cuts notes at a hundred characters',
    'returns the note of begin in every state of the record',
    altered({ begin: (begin) => ({ ...begin, note: begin.note?.slice(0, 100) }) }),
  ),
  broken(
    'does not write what a begin replaces',
    'writes which attempts it replaces after a note that ends in <',
    altered({ begin: (begin) => ({ ...begin, note: begin.note?.replace(/<$/, '') }) }),
  ),
  broken(
    'writes no note with an outcome',
    'writes its note in front of that of begin, and cuts the end',
    altered({ complete: (complete) => ({ ...complete, note: undefined }) }),
  ),
  broken(
    'writes no note with a release',
    'leaves a note in front of that of begin',
    altered({ release: (release) => ({ ...release, note: undefined }) }),
  ),
  broken(
    'loses the earlier note at a begin without one',
    'keeps the note of a released record unless the next attempt has one',
    altered({ begin: (begin) => ({ ...begin, note: begin.note ?? '-' }) }),
  ),
  broken(
    'replies takeover with the note of the new attempt',
    "replies takeover with the earlier attempt's note, and keeps that of the last one that had one",
    replying((reply, { note = '-' }) => (reply.kind === 'takeover' ? { ...reply, note } : reply)),
  ),
  broken(
    'returns the note of a duplicate',
    "returns the first attempt's note with in_progress and with an outcome",
    replying((reply, { note = '-' }) => ('note' in reply ? { ...reply, note } : reply)),
  ),
  broken(
    'returns no note under deny',
    'returns the note with abandoned',
    replying((reply) => {
      if (reply.kind !== 'abandoned') return reply;
      const { note: _, ...rest } = reply;
      return rest;
    }),
  ),
  broken(
    'does not extend the retention of a record with its lease',
    'counts lease and retention from the present time',
    altered({
      extend: (extend) => ({ ...extend, recordRetentionMs: extend.leaseMs }),
    }),
  ),
  broken(
    'keeps every success as a failure',
    'returns the outcome after notAfter too: nothing is acquired',
    altered({
      complete: (complete) => ({ ...complete, state: 'failed' }),
    }),
  ),
  broken(
    'restores nothing',
    'replays a restored outcome, and rejects another request for it',
    altered({ complete: (complete) => ({ ...complete, whenGone: 'report' }) }),
  ),
  broken(
    'also restores failures',
    'restores no failure, which could hide an effect',
    altered({
      complete: (complete) =>
        complete.whenGone === 'restore' ? { ...complete, state: 'completed' } : complete,
    }),
  ),
  broken(
    'restores a missing record that it should only report',
    'replies gone without a record under report, and creates none',
    altered({
      complete: (complete) => ({ ...complete, whenGone: 'restore' }),
    }),
  ),
  broken(
    'keeps an outcome for a millisecond longer',
    'prolongs nothing when it replies already',
    altered({
      complete: (complete) => ({ ...complete, retentionMs: complete.retentionMs + 1 }),
    }),
  ),
  broken(
    'keeps no tombstone',
    'does not revive what its owner released',
    altered({ release: (release) => ({ ...release, tombstoneMs: 0 }) }),
  ),
  broken(
    'decodes bodies as UTF-8',
    'keeps a body that is not UTF-8 unchanged for replay, supersession and inspection',
    altered({
      complete: withOutcome(({ header, body }) => ({
        header,
        body: Buffer.from(Buffer.from(body).toString()),
      })),
    }),
  ),
  broken(
    'cuts bodies at a megabyte',
    'keeps a body of 5 MB unchanged for replay, supersession and inspection',
    altered({
      complete: withOutcome(({ header, body }) => ({ header, body: body.slice(0, 2 ** 20) })),
    }),
  ),
  broken(
    'writes headers in latin1',
    'keeps a header of quotes, spaces, backslashes and characters beyond ASCII unchanged for replay, supersession and inspection',
    altered({
      complete: withOutcome(({ header, body }) => ({
        header: Buffer.from(header, 'latin1').toString('latin1'),
        body,
      })),
    }),
  ),
  broken(
    'trims headers',
    'keeps a header of quotes, spaces, backslashes and characters beyond ASCII unchanged for replay, supersession and inspection',
    altered({
      complete: withOutcome(({ header, body }) => ({ header: header.trim(), body })),
    }),
  ),
  broken(
    'lists what was abandoned a millisecond too early',
    'counts from the end of the extended lease',
    listing({
      command: (command) => ({ ...command, overMs: Math.max(0, command.overMs - 1) }),
    }),
  ),
  broken(
    'lists only the first page',
    'lists all of many records, page by page',
    listing({
      page: ({ records }) => ({ records }),
    }),
  ),
  broken(
    'lists nothing until a clock that stepped back has caught up',
    'changes only the lease of a record when it shortens it',
    (now) => {
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
  ),
  broken(
    'lists no abandoned record',
    'does not list an expired record',
    listing({ page: () => ({ records: [] }) }),
  ),
  broken(
    'mixes up the origins of abandoned records',
    'lists a record in progress once its lease has been over for that long',
    listing({
      record: (record) => ({ ...record, origin: 'bWl4ZWQtdXA' }),
    }),
  ),
  broken(
    'mixes up the fingerprints of abandoned records',
    'lists a record in progress once its lease has been over for that long',
    listing({
      record: (record) => ({ ...record, fingerprint: '-' as Fingerprint }),
    }),
  ),
  broken(
    "amends without comparing the operator's fence",
    'changes nothing when state or fence are not what the operator saw',
    amending(({ expected, ...command }, { fence }) => ({
      ...command,
      expected: { ...expected, fence },
    })),
  ),
  broken(
    'amends a record whose lease is running',
    'does not change a record whose lease is running unless it is told to',
    amending((command) => ({ ...command, evenIfRunning: true })),
  ),
  broken(
    'amends before notBefore',
    'changes nothing before notBefore',
    amending((command) => ({ ...command, notBefore: 0 })),
  ),
  broken(
    'does not recognise a copy of an amend',
    'replies already to a copy of the command, and changes nothing',
    amending((command) => ({ ...command, token: randomUUID() as OwnerToken })),
  ),
  broken(
    'amends without a note',
    'replaces the note where one is given',
    amending((command) => ({ ...command, note: undefined })),
  ),
  broken(
    'counts no takeover after an amend',
    'releases a record in any state, and the operation runs again as a takeover',
    amending(({ change, ...command }) => ({
      ...command,
      change: change.kind === 'release' ? { ...change, isTakeover: false } : change,
    })),
  ),
  broken(
    'lists records of every note',
    'lists records whose note contains one of the texts',
    listingRecords((command) => ({ ...command, notes: undefined })),
  ),
  broken(
    'lists records of every key',
    'lists records whose key begins with the requested text',
    listingRecords((command) => ({ ...command, keyPrefix: undefined })),
  ),
  broken(
    'looks at all records for a page',
    'ends a page when it has looked at enough, though it lists nothing',
    listingRecords((command) => ({ ...command, maxScanned: Infinity })),
  ),
  broken(
    'cannot be opened again after a close',
    'works again after each close and open',
    closing(() => true, false),
  ),
  broken(
    'is closed by the first application that ends',
    'keeps working for one application when another closes it',
    closing(() => true),
  ),
  broken(
    'is closed by an application that never opened it',
    'keeps working when an application closes it that never opened it',
    closing((isKnown) => !isKnown),
  ),
  broken(
    'uses a clock that stands still',
    'acquires anew once a record in progress has expired, with a higher fence',
    () => memoryStore({ now: () => 1_000_000 }),
  ),
  broken('measures time in seconds', 'returns a record until its last millisecond', (now) =>
    memoryStore({ now: () => Math.floor(now() / 1000) * 1000 }),
  ),
];

function broken(mistake: string, objection: string, create: BrokenStore['create']): BrokenStore {
  return { mistake, suite: 'test/conformance/stores.test.ts', objection, create };
}

interface Alterations {
  readonly lease?: (lease: Lease) => Lease;
  readonly begin?: (command: Begin) => Begin;
  readonly extend?: (command: Extend) => Extend;
  readonly complete?: (command: Complete) => Complete;
  readonly release?: (command: Release) => Release;
}

/** A store that receives altered commands and is otherwise correct. */
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

/** A store whose replies to begin are altered. */
function replying(alter: (reply: BeginReply, command: Begin) => BeginReply) {
  class ReplyingStore extends MemoryIdempotencyStore {
    override async begin(command: Begin) {
      return alter(await super.begin(command), command);
    }
  }
  return (now: Clock) => new ReplyingStore({ now });
}

/** A store that compares the fingerprints of a late completion and of the finished record incorrectly. */
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

/** A store that lists abandoned records incorrectly. */
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

/** A store whose operator's commands are altered. */
function amending(alter: (command: Amend, record: { readonly fence: number }) => Amend) {
  class AmendingStore extends MemoryIdempotencyStore {
    override async amend(command: Amend) {
      const record = (await super.inspect(command.recordKey)) ?? { fence: 0 };
      return super.amend(alter(command, record));
    }
  }
  return (now: Clock) => new AmendingStore({ now });
}

function listingRecords(alter: (command: List) => List) {
  class ListingStore extends MemoryIdempotencyStore {
    override list(command: List) {
      return super.list(alter(command));
    }
  }
  return (now: Clock) => new ListingStore({ now });
}

/** A store that closes when it must stay open, or does not open again. */
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
