/** The agents that see the store's commands, as the tests install them. */
export const agentVersions = {
  '@opentelemetry/instrumentation-ioredis': '0.71.0',
  '@sentry/node': '11.12.0',
  'dd-trace': '5.132.0',
  'elastic-apm-node': '4.18.0',
  newrelic: '14.5.1',
} as const;
