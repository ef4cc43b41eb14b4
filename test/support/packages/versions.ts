/** The agents that see the store's commands, as the tests install them. */
export const agentVersions = {
  '@opentelemetry/instrumentation-ioredis': '0.71.0',
  '@sentry/node': '11.12.0',
  'dd-trace': '5.132.0',
  'elastic-apm-node': '4.18.0',
  newrelic: '14.5.1',
} as const;

/** Of `@golevelup/nestjs-rabbitmq`, which an application of its own installs: npm does not resolve its peers beside Nest 12. */
export const golevelupVersion = '9.0.2';

/** The packages of one version of Nest, as an application depends on them. */
export type NestPackages = Readonly<Record<`@nestjs/${string}`, string>>;

/** What the peer dependencies allow, the first and last of each major. Every push runs the newest. */
export const nestVersions = {
  '11.1.4': nest('11.1.4', { fastify: '11.1.4', swagger: '11.0.0', terminus: '11.0.0' }),
  '11.2.10': nest('11.2.10', { fastify: '11.2.8', swagger: '11.4.7', terminus: '11.1.1' }),
  // In 12.0.0, core depends on the common of 11: npm does not install it.
  '12.0.1': nest('12.0.1', { fastify: '12.0.1', swagger: '12.0.1', terminus: '12.0.0' }),
  '12.5.1': nest('12.5.1', { fastify: '12.5.0', swagger: '12.0.2', terminus: '12.1.0' }),
} as const satisfies Record<string, NestPackages>;

function nest(
  version: string,
  others: Readonly<Record<'fastify' | 'swagger' | 'terminus', string>>,
): NestPackages {
  return {
    '@nestjs/common': version,
    '@nestjs/core': version,
    '@nestjs/platform-express': version,
    '@nestjs/platform-fastify': others.fastify,
    '@nestjs/swagger': others.swagger,
    '@nestjs/terminus': others.terminus,
  };
}
