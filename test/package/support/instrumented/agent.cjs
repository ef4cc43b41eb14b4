// Starts the agent that AGENT names, as its documentation says, but for where its spans go: they are printed, each with
// its name and its duration in milliseconds.
const { createServer } = require('node:http');
const { gunzipSync, inflateSync } = require('node:zlib');

const HANDLER_MS = 300;

/** @returns a function that runs `work` as part of a trace, and one that returns what the spans of the trace came to. */
const agents = {
  opentelemetry() {
    const { trace } = require('@opentelemetry/api');
    const { NodeSDK } = require('@opentelemetry/sdk-node');
    const { InMemorySpanExporter, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-base');
    const { IORedisInstrumentation } = require('@opentelemetry/instrumentation-ioredis');
    const exporter = new InMemorySpanExporter();
    new NodeSDK({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
      instrumentations: [new IORedisInstrumentation()],
    }).start();
    const msOf = ([seconds, nanoseconds]) => seconds * 1e3 + nanoseconds / 1e6;
    return {
      within: (work) =>
        trace.getTracer('test').startActiveSpan('parent', async (span) => {
          await work();
          span.end();
        }),
      spans: () => exporter.getFinishedSpans().map(({ name, duration }) => [name, msOf(duration)]),
    };
  },

  sentry() {
    const Sentry = require('@sentry/node');
    const spans = [];
    Sentry.init({
      dsn: 'http://key@127.0.0.1:1/1',
      tracesSampleRate: 1,
      // Whole transactions, each when it has ended.
      traceLifecycle: 'static',
      beforeSendTransaction(event) {
        for (const { description, start_timestamp, timestamp } of event.spans ?? [])
          spans.push([description, (timestamp - start_timestamp) * 1e3]);
        return null;
      },
    });
    return {
      within: (work) => Sentry.startSpan({ name: 'parent' }, work),
      spans: async () => {
        await Sentry.flush(2_000);
        return spans;
      },
    };
  },

  newrelic() {
    Object.assign(process.env, {
      NEW_RELIC_APP_NAME: 'test',
      NEW_RELIC_LICENSE_KEY: 'a'.repeat(40),
      NEW_RELIC_HOST: '127.0.0.1',
      NEW_RELIC_PORT: '1',
      NEW_RELIC_LOG_LEVEL: 'fatal',
      NEW_RELIC_LOG: 'stdout',
      NEW_RELIC_NO_CONFIG_FILE: 'true',
    });
    const newrelic = require('newrelic');
    // As if its collector had replied.
    newrelic.agent.setState('started');
    const spans = [];
    newrelic.agent.on('transactionFinished', ({ trace }) => {
      const visit = (segment) => {
        spans.push([segment.name, segment.timer.getDurationInMillis()]);
        trace.getChildren(segment.id).forEach(visit);
      };
      visit(trace.root);
    });
    return {
      within: (work) => newrelic.startBackgroundTransaction('parent', work),
      spans: () => spans,
    };
  },

  async elastic() {
    const spans = [];
    const url = await collect((body) => {
      for (const line of body.toString().split('\n').filter(Boolean)) {
        const { span } = JSON.parse(line);
        if (span !== undefined) spans.push([span.name, span.duration]);
      }
    });
    const apm = require('elastic-apm-node').start({
      serverUrl: url,
      serviceName: 'test',
      logLevel: 'off',
      // Otherwise two commands become one span, with the time between them.
      spanCompressionEnabled: false,
      exitSpanMinDuration: '0ms',
      metricsInterval: '0s',
      centralConfig: false,
      cloudProvider: 'none',
    });
    return {
      within: async (work) => {
        const transaction = apm.startTransaction('parent');
        await work();
        transaction.end();
      },
      spans: async () => {
        await apm.flush();
        return spans;
      },
    };
  },

  async datadog() {
    const spans = [];
    const { unpack } = require('msgpackr');
    const url = await collect((body) => {
      for (const span of unpack(body).flat())
        spans.push([`${span.name} ${span.resource}`, Number(span.duration) / 1e6]);
    });
    const tracer = require('dd-trace').init({
      url,
      service: 'test',
      flushInterval: 0,
      startupLogs: false,
      telemetry: { enabled: false },
      remoteConfig: { enabled: false },
    });
    return {
      within: (work) => tracer.trace('parent', work),
      spans: async () => {
        await new Promise((done) => setTimeout(done, 500));
        return spans;
      },
    };
  },
};

/** @returns the address of a server that calls `receive` with each body that it gets. */
function collect(receive) {
  return new Promise((resolve) => {
    const server = createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        const unzip = { gzip: gunzipSync, deflate: inflateSync };
        const isSpans = /traces|events/.test(request.url) && body.length > 0;
        if (isSpans) receive(unzip[request.headers['content-encoding']]?.(body) ?? body);
        response.setHeader('content-type', 'application/json').end('{}');
      });
    });
    server.listen(0, '127.0.0.1', () => {
      resolve(`http://127.0.0.1:${server.address().port}`);
    });
    server.unref();
  });
}

const started = agents[process.env.AGENT]();

globalThis.runOnce = async (application) => {
  const { Module, NestFactory, IdempotencyModule, IdempotencyService, redisStore } = application;
  const { within, spans } = await started;
  class AppModule {}
  const store = redisStore({ url: process.env.REDIS_URL });
  Module({ imports: [IdempotencyModule.forRoot({ service: 'agent', store })] })(AppModule);
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  // The start's own step: some agents show it, too.
  const { length: atTheStart } = await spans();
  const call = { operation: 'charge', scope: 'tester', key: `key-${process.pid}` };
  const took = {};
  const measure = async (name, work) => {
    const startedAt = performance.now();
    await work();
    took[name] = performance.now() - startedAt;
  };
  const handler = () =>
    measure('handler', () => new Promise((done) => setTimeout(done, HANDLER_MS)));
  await within(() => measure('all', () => app.get(IdempotencyService).run(call, handler)));
  const ofTheCall = (await spans()).slice(atTheStart);
  const seen = ofTheCall.filter(([name]) => /evalsha/i.test(name));
  const sum = seen.reduce((before, [, ms]) => before + ms, 0);
  // Of the begin and of the completion, one after the other, with the handler between them.
  const areTrue = seen.every(([, ms]) => ms > 0) && sum <= took.all - took.handler;
  process.stdout.write(JSON.stringify({ seen, took, areTrue }), () => process.exit());
};
