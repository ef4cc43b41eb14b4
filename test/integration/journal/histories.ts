import type {
  AmendedRecord,
  IdempotencyStore,
  Lease,
  OwnerToken,
  RecordKey,
} from '../../support/internals/core.js';
import {
  beginCommand,
  completeCommand,
  FINGERPRINT,
  leaseOf,
  newRecordKey,
  newToken,
  releaseCommand,
} from '../../support/stores/commands.js';
import { Random } from '../differential/random.js';

/** What an entry says, but for instant, service and version. */
export interface Entry {
  readonly key: string;
  readonly kind: string;
  readonly state: string;
  readonly fence: number;
  readonly attempt: number;
  readonly fingerprint: string;
  readonly note: string;
}

const TIMEOUT_MS = 20_000;
const RETENTION_MS = 3_600_000;
const STEPS = 8;
const AT_A_TIME = 40;
const NOTE = 'dHJhY2U';
const OUTCOME = { header: '{"status":200}', body: Buffer.from('settled') };
const CHANGES: readonly AmendedRecord[] = [
  { kind: 'release', tombstoneMs: RETENTION_MS, isTakeover: true },
  { kind: 'settle', state: 'completed', outcome: OUTCOME, retentionMs: RETENTION_MS },
  { kind: 'keep', outcome: OUTCOME, retentionMs: RETENTION_MS },
];

/**
 * Lets attempts and an operator work on records, each of which they have for themselves, with leases that are over at once.
 * Many commands are sent twice, as after a lost reply. @returns the entries of what became of the records, by the replies.
 */
export async function histories(store: IdempotencyStore, keys: number, seed: number) {
  const random = new Random(seed);
  const all: Entry[] = [];
  let left = keys;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      all.push(...(await new History(store, random).run()));
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return all;
}

class History {
  private readonly recordKey: RecordKey = newRecordKey();
  private readonly leases: Lease[] = [];
  /** Tokens whose begin has acquired the record. */
  private readonly knows = new Set<OwnerToken>();
  /** By token, kind and fence: a copy of a command changes nothing. */
  private readonly entries = new Map<string, Entry>();
  private takeovers = 0;

  constructor(
    private readonly store: IdempotencyStore,
    private readonly random: Random,
  ) {}

  async run(): Promise<readonly Entry[]> {
    await this.begin();
    for (let step = 0; step < STEPS; step += 1) {
      const dice = this.random.fraction();
      if (dice < 0.35) await this.begin();
      else if (dice < 0.65) await this.complete();
      else if (dice < 0.8) await this.release();
      else await this.amend();
    }
    return [...this.entries.values()];
  }

  private async begin(): Promise<void> {
    const { recordKey, random } = this;
    const note = random.chance(0.5) ? NOTE : undefined;
    const command = beginCommand({ recordKey, leaseMs: 1, timeoutMs: TIMEOUT_MS, note });
    await this.twice(async () => {
      const reply = await this.store.begin(command);
      if (reply.kind !== 'acquired' && reply.kind !== 'takeover' && reply.kind !== 'owned') return;
      this.leases.push(leaseOf(command, reply.fence));
      const kind = reply.takeovers > this.takeovers ? 'takeover' : 'acquired';
      this.takeovers = reply.takeovers;
      if (!this.knows.has(command.token)) await this.note(command.token, kind);
      this.knows.add(command.token);
    });
  }

  private async complete(): Promise<void> {
    const lease = this.random.pick(this.leases);
    const state = this.random.chance(0.7) ? 'completed' : 'failed';
    const body = Buffer.alloc(this.random.chance(0.1) ? 20_000 : 8, 'b');
    const outcome = { header: '{"status":201}', body };
    const command = completeCommand({ state, outcome, timeoutMs: TIMEOUT_MS });
    await this.twice(async () => {
      const { kind } = await this.store.complete(lease, command);
      if (kind === 'superseded') await this.note(lease.token, kind, lease.fence);
      else if (kind !== 'lost' && kind !== 'gone') await this.note(lease.token, 'completed');
    });
  }

  private async release(): Promise<void> {
    const lease = this.random.pick(this.leases);
    const command = releaseCommand({ timeoutMs: TIMEOUT_MS });
    await this.twice(async () => {
      const { kind } = await this.store.release(lease, command);
      if (kind === 'ok' || kind === 'already') await this.note(lease.token, 'released');
    });
  }

  private async amend(): Promise<void> {
    const { store, recordKey, random } = this;
    const seen = await store.inspect(recordKey, { timeoutMs: TIMEOUT_MS });
    if (seen === undefined) throw new Error('A record is gone');
    const token = newToken();
    const { state, fence, takeovers } = seen;
    const change = random.pick(CHANGES);
    const expected = { state, fence };
    const command = { recordKey, token, expected, change, evenIfRunning: true, notBefore: 0 };
    await this.twice(async () => {
      const reply = await store.amend({ ...command, timeoutMs: TIMEOUT_MS });
      if (reply?.kind !== 'ok' && reply?.kind !== 'already') return;
      this.takeovers = takeovers + (change.kind === 'release' ? 1 : 0);
      await this.note(token, 'settled');
    });
  }

  private async twice(send: () => Promise<void>): Promise<void> {
    await send();
    if (this.random.chance(0.4)) await send();
  }

  /** The record has changed: the entry says what it is now. */
  private async note(token: OwnerToken, kind: string, ownFence?: number): Promise<void> {
    const record = await this.store.inspect(this.recordKey, { timeoutMs: TIMEOUT_MS });
    if (record === undefined) throw new Error('A record is gone');
    const { state, attempt, note = '' } = record;
    const fence = ownFence ?? record.fence;
    const own = { state, fence, attempt, fingerprint: FINGERPRINT, note };
    const name = `${token} ${kind} ${String(fence)}`;
    if (!this.entries.has(name)) this.entries.set(name, { key: this.recordKey, kind, ...own });
  }
}

/** What one list has and the other has not, each as often as it has it more often. */
export function differences(found: readonly Entry[], expected: readonly Entry[]) {
  const counts = new Map<string, number>();
  const count = (entries: readonly Entry[], by: number) => {
    for (const { key, kind, state, fence, attempt, fingerprint, note } of entries) {
      const text = [key, kind, state, fence, attempt, fingerprint, note].join(' ');
      counts.set(text, (counts.get(text) ?? 0) + by);
    }
  };
  count(found, 1);
  count(expected, -1);
  const all = [...counts];
  return {
    extra: all.filter(([, more]) => more > 0).map(([text]) => text),
    missing: all.filter(([, more]) => more < 0).map(([text]) => text),
  };
}
