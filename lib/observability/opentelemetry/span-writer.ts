import {
  context,
  ROOT_CONTEXT,
  trace,
  type Attributes,
  type Link,
  type Span,
} from '@opentelemetry/api';
import type {
  AttemptSubject,
  FrequentEventType,
  IdempotencyEvent,
  IdempotencyEventType,
  ReconcileReport,
  Transport,
} from '../../core/record/events.js';
import { UNKNOWN_FENCE, type RecordKey } from '../../core/record/record.js';
import { ATTRIBUTE, type LinkType } from './attributes.js';
import { currentTracer, failedWith, OwnSpan, type SpanPolicy } from './own-span.js';
import { contextIn } from './trace-note.js';

type EventOf<Type extends IdempotencyEventType> = Extract<IdempotencyEvent, { type: Type }>;

/** An attempt whose span recorded when it began. */
interface Execution {
  readonly fencingToken: number;
  /** `undefined` for several unprotected attempts: their events do not say which one they are about. */
  span: Span | undefined;
  /** More than one only if they are unprotected. */
  attempts: number;
  /** In milliseconds since the epoch: when saving went on in the background. */
  savedSince: number | undefined;
  /** Another attempt of the same record. */
  next: Execution | undefined;
}

interface Subject {
  readonly operation: string;
  readonly transport?: Transport | undefined;
  readonly recordKey?: RecordKey | undefined;
}

export interface SpanWriterOptions {
  readonly policy: SpanPolicy;
  readonly links: boolean;
  readonly recordKeys: boolean;
}

/** A batch of takeovers may be large. SDKs keep 128 links of a span, by default. */
const MAX_RECONCILED_LINKS = 128;

const REPLAY: LinkType = 'first_execution';

/** Writes what happens to the requests of an application on their spans. */
export class SpanWriter {
  /** Only those whose span records, until they have ended. */
  private readonly executions = new Map<RecordKey, Execution>();
  private reconciled: Link[] = [];

  constructor(private readonly options: SpanWriterOptions) {}

  /** What {@link write} would make nothing of need not be made. */
  wants(type: FrequentEventType): boolean {
    switch (type) {
      case 'completed':
      case 'released':
        return false;
      case 'ended':
        return this.executions.size > 0;
      default:
        // An own span is active, too.
        return trace.getActiveSpan()?.isRecording() === true;
    }
  }

  write(event: IdempotencyEvent): void {
    switch (event.type) {
      case 'acquired':
      case 'takeover':
        this.began(event);
        break;
      case 'unprotected':
        if (event.reason === 'store_unavailable') this.began(event);
        else this.bypassed(event);
        break;
      case 'recovered':
        this.executionOf(event)?.span?.setAttribute(ATTRIBUTE.result, 'recovered');
        break;
      case 'save_delayed': {
        const execution = this.executionOf(event);
        if (execution !== undefined) execution.savedSince = Date.now();
        break;
      }
      case 'ended':
        this.ended(event);
        break;
      case 'replayed':
        this.decided(event, 'replayed', REPLAY, event.trace);
        break;
      case 'rejected':
        this.decided(event, event.reason, 'running_attempt', event.trace);
        break;
      case 'invalid_request':
        this.invalid(event);
        break;
      case 'reconciled':
        this.roundEnded(event);
        break;
      default:
      // Not of a request, or another event says it.
    }
  }

  private began(
    event: EventOf<'acquired' | 'takeover'> | Extract<EventOf<'unprotected'>, AttemptSubject>,
  ): void {
    const { type, operation, transport, attempt, fencingToken } = event;
    const link = type === 'takeover' ? this.linkTo('previous_attempt', event.trace) : undefined;
    if (transport === undefined) {
      // The reconciler's.
      if (link !== undefined && this.reconciled.length < MAX_RECONCILED_LINKS) {
        this.reconciled.push(link);
      }
      return;
    }
    const active = context.active();
    const own = OwnSpan.in(active, { operation, transport });
    const span = own?.span ?? trace.getSpan(active);
    const isRecording = span?.isRecording() === true;
    if (isRecording) this.keep(event, span);
    else if (fencingToken === UNKNOWN_FENCE) this.keep(event, undefined);
    if (!isRecording) return;
    if (own !== undefined) own.isExecuted = true;
    this.describe(span, event, type === 'unprotected' ? type : 'executed');
    span.setAttribute(ATTRIBUTE.attempt, attempt);
    span.setAttribute(ATTRIBUTE.takeover, type === 'takeover');
    if (fencingToken !== UNKNOWN_FENCE) span.setAttribute(ATTRIBUTE.fencingToken, fencingToken);
    if (link !== undefined) span.addLink(link);
  }

  /** It runs without an attempt, which would have other attributes. */
  private bypassed(event: Exclude<EventOf<'unprotected'>, AttemptSubject>): void {
    const active = context.active();
    const own = OwnSpan.in(active, event);
    const span = own?.span ?? trace.getSpan(active);
    if (span?.isRecording() !== true) return;
    if (own !== undefined) own.isExecuted = true;
    this.describe(span, event, `unprotected_${event.reason}`);
  }

  private decided(
    event: EventOf<'replayed' | 'rejected'>,
    result: string,
    linkType: LinkType,
    note: string | undefined,
  ): void {
    const { operation, transport } = event;
    if (transport === undefined) return;
    const active = context.active();
    const own = OwnSpan.in(active, { operation, transport });
    const span = own?.span ?? trace.getSpan(active);
    if (span?.isRecording() !== true) return;
    if (own !== undefined) own.isExecuted = false;
    this.describe(span, event, result);
    if (result === 'store_unavailable') failedWith(span, 'idempotency_store_unavailable');
    const link = this.linkTo(linkType, note);
    if (link !== undefined) span.addLink(link);
  }

  /** Some requests are rejected before their handling is surrounded. */
  private invalid(event: EventOf<'invalid_request'>): void {
    const active = context.active();
    const current = OwnSpan.in(active, event);
    const brief = current === undefined ? OwnSpan.start(this.options.policy, event) : undefined;
    const span = (current ?? brief)?.span ?? trace.getSpan(active);
    if (span?.isRecording() === true) this.describe(span, event, event.reason);
    brief?.ended();
  }

  private ended(event: EventOf<'ended'>): void {
    const execution = this.forget(event);
    if (execution?.span === undefined) return;
    const { span, savedSince, fencingToken } = execution;
    if (span.isRecording()) {
      span.setAttribute(ATTRIBUTE.end, event.how);
      return;
    }
    // An inner span may end before the response: only what took longer than the request has a span of its own.
    if (savedSince === undefined && fencingToken !== UNKNOWN_FENCE) return;
    const spanContext = span.spanContext();
    const save = currentTracer()?.startSpan(
      'idempotency save',
      {
        startTime: savedSince ?? Date.now(),
        links: [{ context: spanContext, attributes: { [ATTRIBUTE.linkType]: 'own_attempt' } }],
      },
      trace.setSpanContext(ROOT_CONTEXT, spanContext),
    );
    if (save === undefined) return;
    this.describe(save, event);
    save.setAttribute(ATTRIBUTE.attempt, event.attempt);
    save.setAttribute(ATTRIBUTE.end, event.how);
    save.end();
  }

  private roundEnded({ report, durationMs }: EventOf<'reconciled'>): void {
    const links = this.reconciled;
    this.reconciled = [];
    const { coverage, ...numbers } = report;
    if (Object.values(numbers).every((number) => number === 0)) return;
    const attributes: Attributes = { [`${ATTRIBUTE.reconcile}.coverage`]: coverage };
    for (const [result, number] of Object.entries(numbers) as [keyof ReconcileReport, number][]) {
      attributes[`${ATTRIBUTE.reconcile}.${result}`] = number;
    }
    currentTracer()
      ?.startSpan('idempotency reconcile', {
        startTime: Date.now() - durationMs,
        attributes,
        links,
        // A timer inherits the context of the start, whose span is over.
        root: trace.getSpan(context.active())?.isRecording() !== true,
      })
      .end();
  }

  /** One by one: an object of them costs as much again. */
  private describe(
    span: Span,
    { operation, transport, recordKey }: Subject,
    result?: string,
  ): void {
    span.setAttribute(ATTRIBUTE.operation, operation);
    if (transport !== undefined) span.setAttribute(ATTRIBUTE.transport, transport);
    if (result !== undefined) span.setAttribute(ATTRIBUTE.result, result);
    if (this.options.recordKeys && recordKey !== undefined) {
      span.setAttribute(ATTRIBUTE.recordKey, recordKey);
    }
  }

  private linkTo(type: LinkType, note: string | undefined): Link | undefined {
    const linked = this.options.links ? contextIn(note) : undefined;
    return linked && { context: linked, attributes: { [ATTRIBUTE.linkType]: type } };
  }

  private keep(subject: AttemptSubject, span: Span | undefined): void {
    const same = this.executionOf(subject);
    if (same !== undefined) {
      same.span = undefined;
      same.attempts += 1;
      return;
    }
    const { recordKey, fencingToken } = subject;
    const next = this.executions.get(recordKey);
    const execution = { fencingToken, span, attempts: 1, savedSince: undefined, next };
    this.executions.set(recordKey, execution);
  }

  private executionOf({ recordKey, fencingToken }: AttemptSubject): Execution | undefined {
    let found = this.executions.get(recordKey);
    while (found !== undefined && found.fencingToken !== fencingToken) found = found.next;
    return found;
  }

  private forget(subject: AttemptSubject): Execution | undefined {
    const found = this.executionOf(subject);
    if (found === undefined) return undefined;
    found.attempts -= 1;
    if (found.attempts > 0) return undefined;
    const { recordKey } = subject;
    const first = this.executions.get(recordKey);
    if (first !== found) {
      let previous = first;
      while (previous?.next !== found) previous = previous?.next;
      previous.next = found.next;
    } else if (found.next === undefined) this.executions.delete(recordKey);
    else this.executions.set(recordKey, found.next);
    return found;
  }
}
