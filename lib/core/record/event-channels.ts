import { channel, type Channel } from 'node:diagnostics_channel';
import { REJECTIONS, type RejectionCode } from '../errors/rejections.js';
import {
  EVENT_SEVERITY,
  INVALID_REQUEST_CODES,
  REJECTED_CODES,
  type AttemptEnd,
  type AttemptSubject,
  type FrequentEventType,
  type IdempotencyEvent,
  type IdempotencyEventType,
  type Transport,
} from './events.js';
import type { RecordKey } from './record.js';

/** Of each event, with the event as the message. Held here: Node forgets a channel that nobody holds. */
const OWN = Object.fromEntries(
  Object.keys(EVENT_SEVERITY).map((type) => [type, channel(`nestjs-idempotency:${type}`)]),
) as Readonly<Record<IdempotencyEventType, Channel>>;

/** Those of Nest's own packages, for tools that listen to these: messages have the fields that such tools expect. */
const REPLAYED = channel('nestjs:idempotency:replayed');
const REJECTED = channel('nestjs:idempotency:rejected');
const LOCK_LOST = channel('nestjs:idempotency:lock-lost');

/** The frequent events that messages on Nest's channels are made of. */
const NEEDED: Readonly<Partial<Record<FrequentEventType, Channel>>> = {
  replayed: REPLAYED,
  rejected: REJECTED,
  ended: LOCK_LOST,
};

/** Nest's name for a transport: `context.getType()`. A call has no such context. */
const CONTEXTS: Readonly<Record<Transport, string>> = {
  http: 'http',
  graphql: 'graphql',
  message: 'rpc',
  websocket: 'ws',
  call: 'call',
};

/** Nest's names for codes. Of any other, ours in upper case. */
export const NEST_CODES: Readonly<Partial<Record<RejectionCode, string>>> = {
  idempotency_key_missing: 'IDEMPOTENCY_KEY_REQUIRED',
  idempotency_key_invalid: 'IDEMPOTENCY_KEY_INVALID',
  idempotency_in_progress: 'IDEMPOTENCY_KEY_IN_USE',
  idempotency_key_reused: 'IDEMPOTENCY_KEY_REUSED',
  idempotency_outcome_unreadable: 'IDEMPOTENCY_RECORD_UNREADABLE',
};

/** The ends of an attempt whose outcome is not in the store, by the store's command that found it out. */
const LOST_AT: Readonly<Partial<Record<AttemptEnd, 'complete' | 'release'>>> = {
  superseded: 'complete',
  diverged: 'complete',
  unsaved: 'complete',
  given_up: 'release',
};

interface Subject {
  readonly operation: string;
  readonly transport?: Transport | undefined;
  readonly recordKey?: RecordKey | undefined;
}

/**
 * Publishes events on channels of `node:diagnostics_channel`. Nothing is made for a channel without a subscriber. A
 * subscriber that throws does not reach the request: Node reports its error as an uncaught exception, a tick later.
 */
export class EventChannels {
  private readonly handlers = new Map<string, string>();
  /** The attempts whose loss is published, until they end: once for each. */
  private readonly lost = new Set<string>();

  /** Names the handler of an operation, which may have a name of its own. */
  declare(operation: string, handler: string): void {
    if (operation !== handler) this.handlers.set(operation, handler);
  }

  wants(type: FrequentEventType): boolean {
    return OWN[type].hasSubscribers || NEEDED[type]?.hasSubscribers === true;
  }

  publish(event: IdempotencyEvent): void {
    const own = OWN[event.type];
    if (own.hasSubscribers) own.publish(event);
    switch (event.type) {
      case 'replayed':
        if (REPLAYED.hasSubscribers) {
          this.publishAs('replayed', REPLAYED, event, { status: event.status });
        }
        return;
      case 'rejected':
        this.publishRejection(event, REJECTED_CODES[event.reason]);
        return;
      case 'invalid_request':
        this.publishRejection(event, INVALID_REQUEST_CODES[event.reason]);
        return;
      case 'lease_lost':
      case 'ended':
        this.followLoss(event, event.type === 'ended' ? LOST_AT[event.how] : 'extend');
        if (event.type === 'ended' && this.lost.size > 0) this.lost.delete(attemptOf(event));
        return;
      default:
        return;
    }
  }

  private publishRejection(subject: Subject, code: RejectionCode): void {
    if (!REJECTED.hasSubscribers) return;
    const { status } = REJECTIONS[code];
    const named = NEST_CODES[code] ?? code.toUpperCase();
    this.publishAs('rejected', REJECTED, subject, { code: named, status });
  }

  private followLoss(
    subject: AttemptSubject,
    phase: 'extend' | 'complete' | 'release' | undefined,
  ) {
    if (!LOCK_LOST.hasSubscribers) this.lost.clear();
    else if (phase !== undefined && !this.lost.has(attemptOf(subject))) {
      this.lost.add(attemptOf(subject));
      this.publishAs('lock-lost', LOCK_LOST, subject, { phase });
    }
  }

  /** The client's key and its scope stay secret: `key` is the digest that names the record. */
  private publishAs(
    type: string,
    to: Channel,
    { operation, transport, recordKey }: Subject,
    more: object,
  ): void {
    // The reconciler handles no request.
    if (transport === undefined) return;
    const handler = this.handlers.get(operation) ?? operation;
    const key = recordKey === undefined ? {} : { key: recordKey };
    to.publish({ type, context: CONTEXTS[transport], handler, ...key, ...more });
  }
}

function attemptOf({ recordKey, fencingToken }: AttemptSubject): string {
  return `${recordKey} ${String(fencingToken)}`;
}
