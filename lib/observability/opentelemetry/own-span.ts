import {
  context,
  createContextKey,
  isSpanContextValid,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api';
import type { SurroundedRequest, Surrounding } from '../../core/telemetry/telemetry.js';
import { errorTypeOf } from '../../core/errors/errors.js';
import { ATTRIBUTE } from './attributes.js';
import { SCOPE } from './scope.generated.js';

/** `'auto'`: where no other span speaks for the request. */
export type SpanPolicy = 'auto' | 'always';

/** Where the active span is the own span of the request that is handled. */
const OWN_SPAN = createContextKey('nestjs-idempotency own span');

/**
 * Not kept: a tracer of a provider that was shut down has no successor.
 * @returns `undefined` if there is no SDK: the API's own provider would make a tracer and a span for no exporter, which
 * takes ten times as long as to find that out.
 */
export function currentTracer(): Tracer | undefined {
  const provider: DelegatingProvider = trace.getTracerProvider();
  return provider.getDelegateTracer === undefined
    ? provider.getTracer(SCOPE.name, SCOPE.version)
    : provider.getDelegateTracer(SCOPE.name, SCOPE.version);
}

/** The API's own is one of these. */
interface DelegatingProvider extends TracerProvider {
  getDelegateTracer?(name: string, version: string): Tracer | undefined;
}

/** A span that lasts as long as the handling of its request. */
export class OwnSpan implements Surrounding {
  /** Whether what the request ends with is the operation's. */
  isExecuted = false;

  private constructor(
    private readonly request: SurroundedRequest,
    readonly span: Span,
  ) {}

  /** @returns `undefined` if another span speaks for the request, or there is no SDK. */
  static start(policy: SpanPolicy, request: SurroundedRequest): OwnSpan | undefined {
    if (policy === 'auto' && hasSpeaker(request)) return undefined;
    const tracer = currentTracer();
    if (tracer === undefined) return undefined;
    const { operation, transport } = request;
    const span = tracer.startSpan(`idempotent ${operation}`, {
      attributes: { [ATTRIBUTE.operation]: operation, [ATTRIBUTE.transport]: transport },
    });
    // An unsampled one becomes active, too: what the operation calls inherits the decision.
    const isReal = span.isRecording() || isSpanContextValid(span.spanContext());
    return isReal ? new OwnSpan(request, span) : undefined;
  }

  /** The one that surrounds a request of this operation in the active context. */
  static in(active: Context, { operation, transport }: SurroundedRequest): OwnSpan | undefined {
    const own = active.getValue(OWN_SPAN) as OwnSpan | undefined;
    const isOf = own?.request.operation === operation && own.request.transport === transport;
    return isOf ? own : undefined;
  }

  run(handle: () => void): void {
    const inner = trace.setSpan(context.active(), this.span).setValue(OWN_SPAN, this);
    context.with(inner, handle);
  }

  ended(error?: unknown): void {
    if (error !== undefined && this.isExecuted) failedWith(this.span, errorTypeOf(error));
    this.span.end();
  }
}

/** Without the error's message, which may contain data. */
export function failedWith(span: Span, errorType = '_OTHER'): void {
  span.setAttribute(ATTRIBUTE.errorType, errorType);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/**
 * Several calls or fields may share an active span: it speaks for none of them. A request of another kind has the one of
 * its instrumentation.
 */
function hasSpeaker({ transport }: SurroundedRequest): boolean {
  if (transport === 'call' || transport === 'graphql') return false;
  const span = trace.getActiveSpan();
  if (span === undefined) return false;
  // A sampled one that does not record has ended, or is the caller's.
  return span.isRecording() || (span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0;
}
