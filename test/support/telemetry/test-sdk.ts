import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { INestApplication } from '@nestjs/common';
import { context, propagation, SpanKind, trace, type Link } from '@opentelemetry/api';
import {
  AlwaysOnSampler,
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-node';
import { until } from '../waiting/until.js';

/** The SDK of OpenTelemetry, with all spans that have ended. One per process at a time, as the API is global. */
export class TestSdk {
  private readonly exporter = new InMemorySpanExporter();
  private readonly provider: NodeTracerProvider;

  private constructor(sampler: Sampler) {
    const spanProcessors = [new SimpleSpanProcessor(this.exporter)];
    this.provider = new NodeTracerProvider({ sampler, spanProcessors });
    this.provider.register();
  }

  static start(sampler: Sampler = new AlwaysOnSampler()): TestSdk {
    return new TestSdk(sampler);
  }

  get spans(): readonly ReadableSpan[] {
    return this.exporter.getFinishedSpans();
  }

  /** The spans, once there are as many: a server's ends after its client has the response. */
  async ended(count: number): Promise<ReadableSpan[]> {
    await until(() => this.spans.length >= count);
    return [...this.spans];
  }

  /** The spans are lost. */
  async stop(): Promise<void> {
    await this.provider.shutdown();
    trace.disable();
    context.disable();
    propagation.disable();
  }
}

/** Gives each request a span until its response is closed, as the instrumentation of HTTP does. */
export function traceRequests(nest: INestApplication): void {
  const server = nest.getHttpServer() as Server;
  const emit = server.emit.bind(server) as (...args: readonly unknown[]) => boolean;
  server.emit = (...args: readonly unknown[]) => {
    if (args[0] !== 'request') return emit(...args);
    const [, request, response] = args as [string, IncomingMessage, ServerResponse];
    const { 'idempotency-key': key } = request.headers;
    const span = trace.getTracer('test').startSpan(`POST ${String(request.url)}`, {
      kind: SpanKind.SERVER,
      attributes: { ...(typeof key === 'string' && { [REQUEST_KEY]: key }) },
    });
    const active = trace.setSpan(context.active(), span);
    context.bind(active, request);
    context.bind(active, response);
    response.once('close', () => span.end());
    return context.with(active, () => emit(...args));
  };
}

/** The attribute by which a test finds the span of a request. */
export const REQUEST_KEY = 'test.key';

/** What the library has written on a span. */
export function written({ attributes }: ReadableSpan): Record<string, unknown> {
  const own = Object.entries(attributes).filter(([name]) => name !== REQUEST_KEY);
  return Object.fromEntries(own);
}

/** All that an exporter may send of a span, but for the attribute of the test's own instrumentation. */
export function exported(span: ReadableSpan): string {
  return JSON.stringify([
    span.name,
    written(span),
    span.links,
    span.events,
    span.status,
    span.instrumentationScope,
    span.resource.attributes,
    span.spanContext(),
  ]);
}

/** Where the links of a span lead, and their types. */
export function linksOf({ links }: ReadableSpan): [spanId: string, type: unknown][] {
  return links.map(({ context: { spanId }, attributes }: Link) => [
    spanId,
    attributes?.['idempotency.link.type'],
  ]);
}

export function idOf(span: ReadableSpan | undefined): string | undefined {
  return span?.spanContext().spanId;
}
