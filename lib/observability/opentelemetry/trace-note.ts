import { isSpanContextValid, TraceFlags, type Span, type SpanContext } from '@opentelemetry/api';

/** Trace id, span id and flags are 25 bytes: 34 characters of base64url. */
const NOTE_LENGTH = 34;

/** What a record keeps of the span of its execution; `undefined` of one that is not exported: no link could lead to it. */
export function noteOf(span: Span | undefined): string | undefined {
  if (span?.isRecording() !== true) return undefined;
  const { traceId, spanId, traceFlags } = span.spanContext();
  if ((traceFlags & TraceFlags.SAMPLED) === 0) return undefined;
  const flags = (traceFlags & 0xff).toString(16).padStart(2, '0');
  const note = Buffer.from(traceId + spanId + flags, 'hex').toString('base64url');
  return note.length === NOTE_LENGTH ? note : undefined;
}

/** What {@link noteOf} has encoded; `undefined` for the note of another telemetry. */
export function contextIn(note: string | undefined): SpanContext | undefined {
  if (note?.length !== NOTE_LENGTH) return undefined;
  const hex = Buffer.from(note, 'base64url').toString('hex');
  const context = {
    traceId: hex.slice(0, 32),
    spanId: hex.slice(32, 48),
    traceFlags: Number.parseInt(hex.slice(48), 16),
    isRemote: true,
  };
  return isSpanContextValid(context) ? context : undefined;
}
