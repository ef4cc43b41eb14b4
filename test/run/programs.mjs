/** A file needs a program if it loads one of these. */
export const NEEDED_BY = {
  redis: [
    'sample-app/demo/processes/redis-server.ts',
    'test/support/redis/redis-server.ts',
    // Whichever it requests: most request this one.
    'test/support/servers/shared/shared-server.ts',
  ],
  postgres: ['test/support/postgres/installed-postgres.ts'],
  'c-compiler': ['test/support/clocks/compiler.ts'],
  chromium: ['test/support/browser/chromium.ts'],
  rabbitmq: [
    'sample-app/demo/processes/rabbitmq-server.ts',
    'test/faults/messages/start-servers.ts',
    'test/support/rabbitmq/installation.ts',
    'test/support/rabbitmq/use-rabbitmq.ts',
  ],
  nats: [
    'test/e2e/messages/brokers-without-acknowledgement.test.ts',
    'test/support/servers/nats-server.ts',
  ],
  mosquitto: [
    'test/e2e/messages/brokers-without-acknowledgement.test.ts',
    'test/support/servers/mosquitto-server.ts',
  ],
  pgbouncer: ['test/support/postgres/pgbouncer-server.ts'],
  nginx: ['test/support/servers/nginx-server.ts'],
  promtool: ['test/support/prometheus/find-promtool.ts'],
  spin: ['test/support/provision/spin.ts'],
};

/** @param closure - what the chosen test files load, as paths. */
export function programsFor(closure) {
  const loaded = new Set(closure);
  return Object.entries(NEEDED_BY)
    .filter(([, files]) => files.some((file) => loaded.has(file)))
    .map(([program]) => program);
}
