import { randomUUID } from 'node:crypto';
import {
  IdempotencyEvents,
  type IdempotencyEvent,
  type IdempotencyStore,
} from 'nestjs-idempotency';
import { recordKey, type Outcome } from 'nestjs-idempotency/store';
import {
  LIMITS,
  resolveGroup,
  PROTOCOL_DEFAULTS,
  type Attempt,
  type DigestProtection,
  type OperationRequest,
  type FinalOutcome,
  type LimitsOptions,
  type ProtocolOptions,
  fingerprint,
  IdempotencyEngine,
  type Decision,
  nodeClock,
  type Clock,
} from '../internals/core.js';
import type { OutcomeTransform } from '../internals/payload.js';
import { FaultyStore } from '../stores/faulty-store.js';
import { storyOf } from './attempt-ends.js';
import { protocolOptions } from './protocol-options.js';

/** One process of an application: its own engine, events and connection to the store. */
export class Worker {
  readonly store: FaultyStore;
  readonly engine: IdempotencyEngine;
  readonly events: IdempotencyEvent[] = [];

  constructor(
    shared: IdempotencyStore,
    given: LimitsOptions = {},
    clock: Clock = nodeClock,
    outcomes?: OutcomeTransform,
    protection?: DigestProtection,
  ) {
    this.store = new FaultyStore(shared, clock);
    const events = new IdempotencyEvents(undefined, clock);
    events.subscribe((event) => void this.events.push(event));
    const limits = resolveGroup('limits', LIMITS, given);
    this.engine = new IdempotencyEngine(
      this.store,
      events,
      limits,
      undefined,
      undefined,
      clock,
      undefined,
      outcomes,
      protection,
    );
  }

  /** The names of the events so far, in order, without `ended`. */
  get reported(): IdempotencyEvent['type'][] {
    return storyOf(this.events);
  }

  eventsOf<Type extends IdempotencyEvent['type']>(
    type: Type,
  ): Extract<IdempotencyEvent, { type: Type }>[] {
    return this.events.filter(
      (event): event is Extract<IdempotencyEvent, { type: Type }> => event.type === type,
    );
  }

  begin(request: OperationRequest): Promise<Decision> {
    return this.engine.begin(request);
  }

  /** Begins and expects to run. */
  async run(request: OperationRequest): Promise<Attempt> {
    const decision = await this.begin(request);
    if (decision.kind !== 'run') throw new Error(`did not run: ${JSON.stringify(decision)}`);
    // As the run of an operation reports it.
    if (!decision.attempt.isProtected) decision.attempt.startedUnprotected();
    return decision.attempt;
  }
}

/** A request with a key of its own. Later levels of options override earlier ones. */
export function newRequest(...levels: readonly ProtocolOptions[]): OperationRequest {
  const scope = ['alice'];
  const key = randomUUID();
  return {
    recordKey: recordKey({ scope, operation: 'pay', key }),
    fingerprint: fingerprint(['pay', 'the payload']),
    operation: 'pay',
    scope,
    key,
    options: protocolOptions(...levels),
  };
}

/** The same key with another payload. */
export function withOtherPayload(request: OperationRequest): OperationRequest {
  return { ...request, fingerprint: fingerprint(['pay', 'another payload']) };
}

/** The same request on a route with other options. */
export function withOptions(request: OperationRequest, options: ProtocolOptions): OperationRequest {
  const { outcome, ...others } = request.options;
  // Those of the module, which no route has.
  const { dictionaries: _, ...ofRoute } = outcome;
  return { ...request, options: protocolOptions({ ...others, outcome: ofRoute }, options) };
}

export function outcomeOf(text: string): Outcome {
  return { header: '{"test":1}', body: Buffer.from(text) };
}

export function success(text: string): FinalOutcome {
  return { state: 'completed', outcome: outcomeOf(text), retentionMs: RETENTION_MS };
}

export function failure(text: string): FinalOutcome {
  return { state: 'failed', outcome: outcomeOf(text), retentionMs: RETENTION_MS };
}

export const RETENTION_MS = PROTOCOL_DEFAULTS.outcome.retention as number;

/** A decision or a settlement, with its outcome as text. */
export function outcomeAsText(result: object): Record<string, unknown> {
  if (!('outcome' in result)) return { ...result };
  const { body } = result.outcome as Outcome;
  return { ...result, outcome: Buffer.from(body).toString() };
}
