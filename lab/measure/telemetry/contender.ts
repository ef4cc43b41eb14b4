import { trace } from '@opentelemetry/api';
import { IdempotencyEvents, IdempotencyMeter } from 'nestjs-idempotency';
import { openTelemetry } from 'nestjs-idempotency/opentelemetry';
import {
  IdempotencyStore,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Lease,
  type Outcome,
} from 'nestjs-idempotency/store';
import { noServices } from '../../../test/support/engine/protocol-options.js';
import {
  IdempotencyEngine,
  DEFAULT_LIMITS,
  Telemetries,
} from '../../../test/support/internals/core.js';
import { CallTransport, type Call } from '../../../test/support/internals/call.js';

export const TASKS = ['first request', 'replay'] as const;
export type Task = (typeof TASKS)[number];

/** An engine, with telemetry or without. */
export class Contender {
  private readonly calls: CallTransport;
  readonly stop: () => void;

  constructor(task: Task, isPresent: boolean) {
    const meter = new IdempotencyMeter();
    const events = new IdempotencyEvents(meter);
    const telemetry = new Telemetries(isPresent ? openTelemetry() : [], events);
    const store = new ReplyingStore(task);
    const engine = new IdempotencyEngine(store, events, DEFAULT_LIMITS, undefined, telemetry);
    this.calls = new CallTransport(engine, noServices);
    telemetry.start(meter);
    this.stop = () => {
      telemetry.stop();
    };
  }

  /** @returns the CPU time of each request. */
  async block(call: Call, requests: number): Promise<number> {
    const before = process.cpuUsage();
    for (let request = 0; request < requests; request += 1) {
      await trace.getTracer('app').startActiveSpan('request', async (span) => {
        await this.calls.settle(call, () => 1);
        span.end();
      });
    }
    const { user, system } = process.cpuUsage(before);
    return (user + system) / requests;
  }
}

/** Keeps nothing. */
class ReplyingStore extends IdempotencyStore {
  private fence = Date.now() * 1_000;
  private outcome: Outcome | undefined;
  private note: string | undefined;

  constructor(private readonly task: Task) {
    super();
  }

  override begin({ note }: Begin): Promise<BeginReply> {
    if (this.outcome !== undefined && this.task === 'replay') {
      return Promise.resolve({
        kind: 'completed',
        outcome: this.outcome,
        retentionLeftMs: 60_000,
        ...(this.note !== undefined && { note: this.note }),
      });
    }
    this.note = note;
    this.fence += 1;
    const acquisition = { fence: this.fence, now: Date.now(), attempt: 1, takeovers: 0 };
    return Promise.resolve({ kind: 'acquired', ...acquisition });
  }

  override complete(_lease: Lease, { outcome }: Complete): Promise<CompleteReply> {
    this.outcome = outcome;
    return Promise.resolve({ kind: 'ok' });
  }

  override extend() {
    return Promise.resolve({ kind: 'ok' } as const);
  }

  override release() {
    return Promise.resolve({ kind: 'ok' } as const);
  }

  override inspect() {
    return Promise.resolve(undefined);
  }

  override close() {
    return Promise.resolve();
  }
}
