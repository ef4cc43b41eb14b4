import type {
  AmendedRecord,
  Fingerprint,
  Outcome,
  OwnerToken,
  RecordState,
  StoredRecord,
} from '../../support/internals/core.js';
import { listsFromSeed } from '../../support/jest/random-runs.js';
import { Random } from './random.js';
import { expected } from './subjects/reference.js';
import type { Command, OwnLease, Step } from './step.js';

// Far ahead of any real clock: Redis itself expires nothing while a test runs.
const START_MS = 2_500_000_000_000;
const HOUR_MS = 3_600_000;
const OPERATOR = 'operator' as OwnerToken;
const TOKENS = ['k1-Zx_9', '-', 'Q'] as OwnerToken[];
const STATES: readonly RecordState[] = ['in_progress', 'completed', 'failed', 'released'];
// Of the long ones, the scripts of Redis read only a part at first.
const FINGERPRINTS = ['fA_', '-', 'other'.repeat(120)] as Fingerprint[];
const ORIGINS = [undefined, undefined, 'eyJrIjoiMSJ9', '-x', 'o'.repeat(512)];
const NOTES = [
  undefined,
  undefined,
  'trace',
  '#'.repeat(240),
  '~h1;~o2<',
  ';<',
  `~h${'3'.repeat(200)};<`,
];
const IN_FRONT = [undefined, undefined, '~d5', '~d'.repeat(110)];
const DURATIONS = [1, 2, 10, 1_000, 10_000, 60_000];
const HEADERS = ['', '{"status":201}', '"Zoë" — 😀 \\n %s', '2c1 2 3 4 5'];
const BODIES = ['b'.repeat(600), '', '\n', 'plain', '\0\r\n\xff\xfe', '2p9 a 1 0 b\n= 9 9 9 c\n'];

/**
 * Generates random histories of one record. The generator reads the state of the reference, so it hits boundaries
 * exactly and picks correct or plausible wrong fences.
 */
export const sequences = listsFromSeed((seed) => new SequenceGenerator(new Random(seed)).steps());

class SequenceGenerator {
  private nowUs: number;
  private record: StoredRecord | undefined;
  /** Every fence that a token has received. */
  private readonly fences = new Map<OwnerToken, number[]>(TOKENS.map((token) => [token, []]));
  private readonly sent: Command[] = [];

  constructor(private readonly random: Random) {
    this.nowUs = START_MS * 1000 + random.integer(0, HOUR_MS * 1000);
  }

  steps(): Step[] {
    const length = this.random.integer(6, 18);
    return Array.from({ length }, () => this.step());
  }

  private step(): Step {
    this.moveClock();
    const command = this.nextCommand();
    this.sent.push(command);
    const step: Step = { ...command, nowUs: this.nowUs };
    this.record = expected(this.record, step).record;
    if (this.record !== undefined) this.fences.get(this.record.token)?.push(this.record.fence);
    return step;
  }

  private moveClock(): void {
    const { random } = this;
    const dice = random.fraction();
    if (dice < 0.3) return;
    if (dice < 0.45) this.nowUs += random.integer(1, 2_500);
    else if (dice < 0.75) this.landOnBoundary();
    else if (dice < 0.88) this.nowUs += random.integer(1, 2 * random.pick(DURATIONS)) * 1000;
    else if (dice < 0.97) this.nowUs -= random.integer(1, 2 * random.pick(DURATIONS)) * 1000;
    else this.nowUs += random.pick([-HOUR_MS, HOUR_MS, 3 * HOUR_MS]) * 1000;
  }

  private landOnBoundary(): void {
    const { random, record } = this;
    if (record === undefined) return;
    const boundaries = [record.expiresAt];
    if (record.state === 'in_progress') {
      const { leaseUntil, leaseMs, deadline } = record;
      // The last two are the boundaries at which a lease too far ahead is clamped.
      boundaries.push(leaseUntil, leaseUntil, deadline, leaseUntil - leaseMs, leaseUntil - leaseMs);
    }
    const aside = random.pick([-1_000, -1, 0, 0, 0, 1, 999, 1_000]);
    this.nowUs = random.pick(boundaries) * 1000 + aside;
  }

  private nextCommand(): Command {
    const { random } = this;
    const dice = random.fraction();
    const latest = this.sent.at(-1);
    // A resend after a lost reply, or a delayed copy.
    if (dice < 0.08 && latest !== undefined) return latest;
    if (dice < 0.18 && latest !== undefined) return random.pick(this.sent);
    if (dice < 0.42) return this.begin();
    if (dice < 0.52) return this.extend();
    if (dice < 0.69) return this.complete();
    if (dice < 0.78) return this.release();
    if (dice < 0.92) return this.amend();
    if (dice < 0.97) return { operation: random.chance(0.5) ? 'inspect' : 'list' };
    return { operation: 'lose' };
  }

  private begin(): Command {
    const { random } = this;
    const maxExecutionMs = this.duration();
    const now = Math.floor(this.nowUs / 1000);
    return {
      operation: 'begin',
      command: {
        token: random.pick(TOKENS),
        fingerprint: this.fingerprint(),
        leaseMs: this.duration(),
        maxExecutionMs,
        recordRetentionMs: this.duration() + (random.chance(0.8) ? maxExecutionMs : 0),
        notAfter: random.chance(0.75) ? 0 : now + random.pick([-10_000, -1, 0, 1, 10_000]),
        onExpiredLease: random.chance(0.3) ? 'deny' : 'takeover',
        origin: random.pick(ORIGINS),
        note: random.pick(NOTES),
      },
    };
  }

  private extend(): Command {
    const command = { leaseMs: this.duration(), recordRetentionMs: this.duration() };
    return { operation: 'extend', lease: this.lease(), command };
  }

  private complete(): Command {
    const { random } = this;
    return {
      operation: 'complete',
      lease: this.lease(),
      command: {
        state: random.chance(0.55) ? 'completed' : 'failed',
        outcome: this.outcome(),
        retentionMs: this.duration(),
        // Often with a fingerprint that differs from the record's.
        fingerprint: random.chance(0.5) ? this.fingerprint() : random.pick(FINGERPRINTS),
        whenGone: random.chance(0.65) ? 'restore' : 'report',
        note: random.pick(IN_FRONT),
      },
    };
  }

  private release(): Command {
    return {
      operation: 'release',
      lease: this.lease(),
      command: { tombstoneMs: this.duration(), note: this.random.pick(IN_FRONT) },
    };
  }

  private amend(): Command {
    const { random, record } = this;
    const seen = record === undefined || random.chance(0.1) ? undefined : record;
    const fence = (seen?.fence ?? this.nowUs) + (random.chance(0.9) ? 0 : random.pick([-1, 1]));
    const now = Math.floor(this.nowUs / 1000);
    return {
      operation: 'amend',
      command: {
        token: random.chance(0.8) ? OPERATOR : random.pick(TOKENS),
        expected: { state: seen?.state ?? random.pick(STATES), fence },
        change: this.change(),
        evenIfRunning: random.chance(0.5),
        notBefore: random.chance(0.75) ? 0 : now + random.pick([-10_000, -1, 0, 1, 10_000]),
        note: random.pick(NOTES),
      },
    };
  }

  private change(): AmendedRecord {
    const { random } = this;
    const dice = random.fraction();
    if (dice < 0.4) {
      const tombstoneMs = random.chance(0.2) ? 0 : this.duration();
      return { kind: 'release', tombstoneMs, isTakeover: random.chance(0.5) };
    }
    const outcome = this.outcome();
    const retentionMs = this.duration();
    if (dice < 0.7) {
      const state = random.chance(0.5) ? 'completed' : 'failed';
      return { kind: 'settle', state, outcome, retentionMs };
    }
    return {
      kind: 'keep',
      outcome: random.chance(0.5) ? outcome : undefined,
      retentionMs: random.chance(0.5) ? retentionMs : undefined,
    };
  }

  private lease(): OwnLease {
    const { random, record } = this;
    const owner = record !== undefined && random.chance(0.6) ? record.token : random.pick(TOKENS);
    const own = this.fences.get(owner) ?? [];
    const dice = random.fraction();
    let fence = own.at(-1) ?? 0;
    if (dice < 0.12) fence = 0;
    else if (dice < 0.2) fence = own[0] ?? 1;
    else if (dice < 0.3) fence = record?.fence ?? this.nowUs;
    else if (dice < 0.38) fence = Math.max(1, (record?.fence ?? this.nowUs) + random.pick([-1, 1]));
    return { token: owner, fence };
  }

  private fingerprint(): Fingerprint {
    return this.random.chance(0.85) ? FINGERPRINTS[0]! : this.random.pick(FINGERPRINTS);
  }

  private outcome(): Outcome {
    const { random } = this;
    const body = Buffer.from(random.pick(BODIES), 'latin1');
    return { header: random.pick(HEADERS), body };
  }

  private duration(): number {
    const { random } = this;
    return random.chance(0.5) ? random.pick(DURATIONS) : random.integer(1, random.pick(DURATIONS));
  }
}
