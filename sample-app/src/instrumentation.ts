/**
 * Starts before the application, by `node --import`. With OTEL=console it prints each span when it ends; a production
 * setup exports them instead.
 */
if (process.env.OTEL === 'console') {
  const { ConsoleSpanExporter, NodeTracerProvider, SimpleSpanProcessor } =
    await import('@opentelemetry/sdk-trace-node');
  const spanProcessors = [new SimpleSpanProcessor(new ConsoleSpanExporter())];
  new NodeTracerProvider({ spanProcessors }).register();
}
